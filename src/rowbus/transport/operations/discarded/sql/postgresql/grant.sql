-- Let a role discard messages and bring them back.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, delete on table :"schema".:"discarded" to :"role"
