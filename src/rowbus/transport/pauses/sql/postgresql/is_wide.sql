-- Say whether the table has the column of scales.
-- Locks nothing; returns one boolean.
select count(*) > 0
from pg_catalog.pg_attribute as attribute
inner join pg_catalog.pg_class as class on attribute.attrelid = class.oid
inner join pg_catalog.pg_namespace as namespace on class.relnamespace = namespace.oid
where
    namespace.nspname = :'schema_name'::text
    and class.relname = :'table_name'::text
    and attribute.attname = 'amount'
    and not attribute.attisdropped
