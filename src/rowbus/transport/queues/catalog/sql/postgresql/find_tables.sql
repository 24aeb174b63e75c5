-- Find the tables that have these columns and no other, whoever made them; types are named with their schema.
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
    and array(
        select named.attname::text || ' ' || named.atttypid::text
        from pg_attribute as named
        where named.attrelid = class.oid and named.attnum > 0 and not named.attisdropped
        order by named.attname
    ) = array(
        select wanted.name || ' ' || wanted.type::regtype::oid::text
        from unnest(:'column_names'::text[], :'column_types'::text[]) as wanted (name, type)
        order by wanted.name::name
    )
order by namespace.nspname, class.relname
