-- Let a role take tokens, give them back and forget keys, and nothing else.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"limits" to :"role"
