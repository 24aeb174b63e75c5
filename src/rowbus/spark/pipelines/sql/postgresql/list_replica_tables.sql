-- List the tables of a replica: source, target, columns, their types in the source, key, the shape of the source, why a
-- table stands still (null: it does not), and the sources of those that foreign keys connect with it.
-- Locks nothing. Returns a row a table, none when the replica is not there.
select
    t.source_table,
    t.target,
    t.column_names,
    coalesce(t.type_names, '{}') as type_names,
    t.key_columns,
    t.shape,
    t.fault,
    array(
        select other.source_table
        from rowbus_spark.replica_table as other
        inner join pg_catalog.pg_constraint as c
            on (c.conrelid, c.confrelid) in (
                (to_regclass(nullif(t.target, '')), to_regclass(nullif(other.target, ''))),
                (to_regclass(nullif(other.target, '')), to_regclass(nullif(t.target, '')))
            )
        where other.replica = t.replica and other.source_table <> t.source_table and c.contype = 'f'
    ) as connected
from rowbus_spark.replica_table as t
where t.replica = :'replica'::text
order by t.source_table
