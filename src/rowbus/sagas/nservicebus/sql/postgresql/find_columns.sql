-- List the columns of .NET's table by which sagas are found: one, or two while .NET changes over from one to another.
-- Locks nothing; returns their names in the order of the table.
select attname
from pg_catalog.pg_attribute
where
    attrelid = to_regclass(:'table_name'::text)
    and starts_with(attname, 'Correlation_')
    and attnum > 0
    and not attisdropped
order by attnum
