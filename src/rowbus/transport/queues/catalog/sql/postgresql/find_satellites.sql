-- Find the tables of an endpoint by their names: its queue's, and those that begin with it and a dot, or as its lanes do.
-- Locks nothing; returns schema and name of each, in order.
select
    namespace.nspname::text as schema,
    class.relname::text as name
from pg_class as class
inner join pg_namespace as namespace on class.relnamespace = namespace.oid
where
    class.relkind in ('r', 'p')
    and namespace.nspname = :'schema_name'::text
    and (
        class.relname = :'endpoint'::text
        or starts_with(class.relname, :'endpoint'::text || '.')
        or starts_with(class.relname, :'endpoint'::text || '#')
    )
order by namespace.nspname, class.relname
