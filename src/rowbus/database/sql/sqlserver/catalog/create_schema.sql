-- Create the schema that queues live in; only done when somebody asks for it. Has to be a batch of its own.
-- Locks nothing that exists; returns nothing. Fails with 2714 if it is there.
create schema [$(schema)];
