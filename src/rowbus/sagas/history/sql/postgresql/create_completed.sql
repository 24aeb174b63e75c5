-- Create the index by which completed sagas are swept, the oldest first.
-- Locks the table against writes meanwhile; returns nothing.
create index if not exists :"history_completed" on :"schema".:"history" (at) where is_completed
