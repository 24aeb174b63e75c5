-- Make the schema of a DuckLake's catalogue, which is not there.
-- Locks its name until the transaction ends; returns nothing.
create schema :"schema"
