-- Find the tables of delayed messages by their columns, NServiceBus's and ours; of any schema, or of one.
-- Locks nothing; returns schema and name of each that this role may read, in order.
select
    namespace.nspname::text as schema,
    class.relname::text as name
from pg_class as class
inner join pg_namespace as namespace on class.relnamespace = namespace.oid
where
    class.relkind in ('r', 'p')
    and (:'schema_name'::text is null or namespace.nspname = :'schema_name'::text)
    and has_schema_privilege(namespace.oid, 'usage')
    and has_table_privilege(class.oid, 'select')
    and (
        select array_agg(named.attname::text || ' ' || named.atttypid::text order by named.attname)
        from pg_attribute as named
        where
            named.attrelid = class.oid
            and named.attnum > 0
            and not named.attisdropped
            and named.attname <> 'bodystring'
    ) = array[
        'body ' || 'pg_catalog.bytea'::regtype::oid,
        'due ' || 'pg_catalog.timestamptz'::regtype::oid,
        'headers ' || 'pg_catalog.text'::regtype::oid,
        'id ' || 'pg_catalog.uuid'::regtype::oid
    ]
order by namespace.nspname, class.relname
