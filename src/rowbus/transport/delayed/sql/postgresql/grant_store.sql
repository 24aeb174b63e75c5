-- Let a role delay messages in a table that others move.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant insert on table :"schema".:"delayed" to :"role"
