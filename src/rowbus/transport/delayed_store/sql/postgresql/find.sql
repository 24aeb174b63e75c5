-- Find the tables of delayed message stores, ours and others', by their columns; of any schema, or of one.
-- Locks nothing; returns schema and name of each that this role may read, in order.
select
    namespace.nspname::text as schema,
    class.relname::text as name
from pg_class as class
inner join pg_namespace as namespace on class.relnamespace = namespace.oid
where
    class.relkind in ('r', 'p')
    and (:'schema_name'::text is null or namespace.nspname = :'schema_name'::text)
    and has_table_privilege(class.oid, 'select')
    and (
        select array_agg(named.attname::text || ' ' || named.atttypid::regtype order by named.attname)
        from pg_attribute as named
        where
            named.attrelid = class.oid
            and named.attnum > 0
            and not named.attisdropped
    ) = array[
        'destination text',
        'headers bytea',
        'id character varying',
        'retry_count integer',
        'state bytea',
        'time timestamp with time zone'
    ]
order by namespace.nspname, class.relname
