-- Drop the schema of a measurement with all that is in it.
-- Waits for transactions that use its tables; returns nothing.
drop schema if exists :"schema" cascade
