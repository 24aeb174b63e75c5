-- Create a database for tests, which is dropped when they end; cannot run inside a transaction.
-- Locks the template database against sessions while it is copied; returns nothing.
create database :"database"
