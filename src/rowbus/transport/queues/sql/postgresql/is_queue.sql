-- List the columns of a table, by which it is a queue or none; names are compared exactly, and never cut.
-- Locks nothing; returns name, type, whether it takes null, whether it is filled by itself and whether this is a table, a
-- row a column; no row where nothing is.
select
    attribute.attname::text as name,
    format_type(attribute.atttypid, attribute.atttypmod) as type,
    not attribute.attnotnull as nullable,
    attribute.atthasdef or attribute.attidentity <> '' as filled,
    relation.relkind in ('r', 'p') as is_table
from pg_catalog.pg_class as relation
inner join pg_catalog.pg_namespace as namespace on relation.relnamespace = namespace.oid
inner join pg_catalog.pg_attribute as attribute on relation.oid = attribute.attrelid
where
    namespace.nspname::text = :'schema_name'::text
    and relation.relname::text = :'table_name'::text
    and attribute.attnum > 0
    and not attribute.attisdropped
