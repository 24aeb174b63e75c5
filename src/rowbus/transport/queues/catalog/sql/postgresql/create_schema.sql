-- Create the schema that queues live in; only on request.
-- Locks nothing that exists; returns nothing.
create schema if not exists :"schema"
