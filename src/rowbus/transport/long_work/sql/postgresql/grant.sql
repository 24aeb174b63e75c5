-- Let a role put, take, hold and remove running work, and nothing else.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"running" to :"role"
