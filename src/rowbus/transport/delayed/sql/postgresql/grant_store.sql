-- Let a role delay messages in a table that others move.
-- For whoever owns the table to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant insert on table :"schema".:"delayed" to :"role"
