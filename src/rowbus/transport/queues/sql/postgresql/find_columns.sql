-- List the columns of tables, by which they are queues, stores or neither; names are compared exactly, and never cut.
-- Locks nothing; returns schema, name, whether it is a table, and of its columns the names, the types without quotes,
-- whether they take null and whether they are filled by themselves; no row where nothing is.
select
    namespace.nspname::text as schema,
    relation.relname::text as name,
    relation.relkind in ('r', 'p') as is_table,
    columns.names,
    columns.types,
    columns.nullable,
    columns.filled
from unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
inner join pg_catalog.pg_namespace as namespace on namespace.nspname::text = named.schema
inner join pg_catalog.pg_class as relation
    on namespace.oid = relation.relnamespace and relation.relname::text = named.name
cross join lateral (
    select
        coalesce(array_agg(attribute.attname::text), '{}') as names,
        coalesce(
            array_agg(translate(format_type(attribute.atttypid, attribute.atttypmod), '"', '')), '{}'
        ) as types,
        coalesce(array_agg(not attribute.attnotnull), '{}') as nullable,
        coalesce(array_agg(attribute.atthasdef or attribute.attidentity <> ''), '{}') as filled
    from pg_catalog.pg_attribute as attribute
    where
        relation.oid = attribute.attrelid
        and attribute.attnum > 0
        and not attribute.attisdropped
) as columns
