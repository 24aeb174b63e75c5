-- List the tables of a replica: source, target, columns, their types in the source, key, the shape of the source, and why a
-- table stands still (null: it does not).
-- Locks nothing. Returns a row a table, none when the replica is not there.
select
    t.source_table,
    t.target,
    t.column_names,
    coalesce(t.type_names, '{}') as type_names,
    t.key_columns,
    t.shape,
    t.fault
from rowbus_spark.replica_table as t
where t.replica = :'replica'::text
order by t.source_table
