-- Let a role discard messages and bring them back. UPDATE is for `for update`: no row is ever updated.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"discarded" to :"role"
