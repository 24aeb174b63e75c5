-- Say whether the table has the readable copy of the body.
-- Locks nothing; returns one row with one boolean.
select exists(
    select 1
    from pg_catalog.pg_attribute as attribute
    where attribute.attrelid = to_regclass(:'table_name'::text) and attribute.attname = 'bodystring'
)
