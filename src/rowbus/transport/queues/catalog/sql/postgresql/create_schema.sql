-- Create the schema that queues live in; only done when somebody asks for it.
-- Locks nothing that exists; returns nothing.
create schema if not exists :"schema"
