-- Let a role note operations and look at them, and delete none.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update on table :"schema".:"operations" to :"role"
