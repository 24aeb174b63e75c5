-- Let a role note how a database stands, look at it, and forget the oldest.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"past" to :"role"
