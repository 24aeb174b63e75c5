-- Say whether this role may read, write and delete from a table, or create it if it is missing.
-- Locks nothing; returns one row.
select coalesce(
    (
        select
            has_table_privilege(relation.oid, 'select')
            and has_table_privilege(relation.oid, 'insert')
            and has_table_privilege(relation.oid, 'update')
            and has_table_privilege(relation.oid, 'delete')
        from pg_class as relation
        inner join pg_namespace as namespace on relation.relnamespace = namespace.oid
        where
            namespace.nspname = :'schema_name'::text
            and relation.relname = :'table_name'::text
    ),
    (
        select has_schema_privilege(namespace.oid, 'create')
        from pg_namespace as namespace
        where namespace.nspname = :'schema_name'::text
    ),
    false
) as changeable
