-- Wait until who has created a table gives up its lock on it. The server tells other sessions of a table between the commit
-- and that, so one that was refused the name may still be told for a moment that there is no such table.
-- Locks the table in mode ACCESS SHARE for the statement. Returns one row, the size of the table, or none.
select pg_catalog.pg_relation_size(c.oid)
from pg_catalog.pg_class as c
inner join pg_catalog.pg_namespace as n on c.relnamespace = n.oid
where n.nspname = :'schema'::text and c.relname = :'table'::text
