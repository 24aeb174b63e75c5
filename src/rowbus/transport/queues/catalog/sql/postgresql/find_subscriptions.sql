-- Find the tables of subscriptions by their columns, NServiceBus's and ours, in any schema. Types are pg_catalog's texts:
-- reading a column of another type may run the cast of whoever made it.
-- Locks nothing; returns schema and name of each that this role may read, in order.
select
    namespace.nspname::text as schema,
    class.relname::text as name
from pg_class as class
inner join pg_namespace as namespace on class.relnamespace = namespace.oid
where
    class.relkind in ('r', 'p')
    and has_schema_privilege(namespace.oid, 'usage')
    and has_table_privilege(class.oid, 'select')
    and (
        select array_agg(named.attname::text order by named.attname)
        from pg_attribute as named
        where named.attrelid = class.oid and named.attnum > 0 and not named.attisdropped
    ) = array['endpoint', 'queueaddress', 'topic']
    and not exists (
        select
        from pg_attribute as named
        where
            named.attrelid = class.oid
            and named.attnum > 0
            and not named.attisdropped
            and named.atttypid not in ('pg_catalog.varchar'::regtype, 'pg_catalog.text'::regtype)
    )
order by namespace.nspname, class.relname
