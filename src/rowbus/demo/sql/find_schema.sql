-- Find a schema of the demo's and the mark that it is ours.
-- Locks nothing; returns one row if the schema is there: its comment.
select obj_description(namespaces.oid, 'pg_namespace') as mark
from pg_namespace as namespaces
where namespaces.nspname = :'schema'::text
