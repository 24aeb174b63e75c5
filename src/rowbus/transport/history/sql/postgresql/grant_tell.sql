-- Let a role add what it handled.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update on table :"schema".:"past" to :"role"
