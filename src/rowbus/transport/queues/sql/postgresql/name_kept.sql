-- Say which queue `keep.sql` is to keep, in this transaction: a block of statements takes no parameters.
-- Locks nothing; returns one row that means nothing.
select pg_catalog.set_config(
    'rowbus.kept', pg_catalog.format('%I.%I', :'schema_name'::text, :'kept_table'::text), true
)
