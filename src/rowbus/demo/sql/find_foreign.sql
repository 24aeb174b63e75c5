-- Find schemas with the demo's names that the demo did not make.
-- Locks nothing; returns a row for each: its name.
select namespaces.nspname as schema
from pg_namespace as namespaces
where
    namespaces.nspname in ('rowbus_demo', 'rowbus_demo_replica')
    and coalesce(obj_description(namespaces.oid, 'pg_namespace'), '') not like 'made by `rowbus demo`%'
