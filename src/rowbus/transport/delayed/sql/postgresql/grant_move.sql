-- Let a role delay messages in a table and move them when they are due; it also needs to be let send to their queues.
-- UPDATE is for `for update`: no row is ever updated.
-- For the table's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, insert, update, delete on table :"schema".:"delayed" to :"role"
