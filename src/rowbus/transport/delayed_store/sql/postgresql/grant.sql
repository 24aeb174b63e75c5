-- Let a role keep delayed messages in a store's table and take them out again; UPDATE also counts failures.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"store" to :"role"
