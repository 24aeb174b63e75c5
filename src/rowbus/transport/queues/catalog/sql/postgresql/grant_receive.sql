-- Let a role receive from, peek and purge a queue, and nothing else. UPDATE is for `for update`: no row is ever updated.
-- For the queue's owner to run, once; locks the catalogue's rows; returns nothing.
grant usage on schema :"schema" to :"role";
grant select, update, delete on table :"schema".:"queue" to :"role"
