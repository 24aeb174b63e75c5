-- List the columns of a table, by which it is a queue or none; names are compared exactly, and never cut.
-- Locks nothing; returns name, type, whether it takes null and whether it is filled by itself, a row a column; no row for a
-- table that is missing.
select
    attribute.attname::text as name,
    format_type(attribute.atttypid, attribute.atttypmod) as type,
    not attribute.attnotnull as nullable,
    attribute.atthasdef or attribute.attidentity <> '' as filled
from pg_catalog.pg_class as relation
inner join pg_catalog.pg_namespace as namespace on relation.relnamespace = namespace.oid
inner join pg_catalog.pg_attribute as attribute on relation.oid = attribute.attrelid
where
    namespace.nspname::text = :'schema_name'::text
    and relation.relname::text = :'table_name'::text
    and relation.relkind in ('r', 'p')
    and attribute.attnum > 0
    and not attribute.attisdropped
