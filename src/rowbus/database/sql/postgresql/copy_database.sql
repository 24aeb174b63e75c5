-- Create a database for tests, a copy of another, which is dropped when they end; cannot run inside a transaction.
-- Locks the other one, to which nothing may be connected: it fails with 55006 if something is. Returns nothing.
create database :"database" template :"template"
