-- Let a role begin, find, write and delete sagas of .NET's table, and nothing else.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"shared_saga" to :"role"
