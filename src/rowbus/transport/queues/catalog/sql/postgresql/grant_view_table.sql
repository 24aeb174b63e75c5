-- Let a role look at a table of an endpoint that is no queue, and change nothing.
-- For the owner of the table to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select on table :"schema".:"queue" to :"role"
