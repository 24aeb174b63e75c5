-- Find a table by the name maintenance knows it by, written as in SQL. Locks nothing.
-- Returns its schema and its name, or no row.
select
    n.nspname::text,
    c.relname::text
from pg_class as c
inner join pg_namespace as n on c.relnamespace = n.oid
where c.oid = to_regclass(:'name'::text)
