-- Create the index by which the history of a saga is found by the text that finds the saga.
-- Locks the table against writes meanwhile; returns nothing.
create index if not exists :"history_found" on :"schema".:"history" (correlation)
