-- Find the tables of subscriptions by their columns, NServiceBus's and ours, in any schema.
-- Locks nothing; returns schema and name of each that this role may read, in order.
select
    namespace.nspname::text as schema,
    class.relname::text as name
from pg_class as class
inner join pg_namespace as namespace on class.relnamespace = namespace.oid
where
    class.relkind in ('r', 'p')
    and has_table_privilege(class.oid, 'select')
    and (
        select array_agg(named.attname::text order by named.attname)
        from pg_attribute as named
        where named.attrelid = class.oid and named.attnum > 0 and not named.attisdropped
    ) = array['endpoint', 'queueaddress', 'topic']
order by namespace.nspname, class.relname
