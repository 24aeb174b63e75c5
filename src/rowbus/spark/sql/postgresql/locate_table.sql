-- Say whether there is a table, and into which logs it is captured; a partitioned table counts, though its events name
-- its partitions.
-- Locks nothing. Returns one row, in the order of `source_table.Whereabouts`.
select
    exists(
        select from pg_catalog.pg_class as class
        inner join pg_catalog.pg_namespace as namespace on class.relnamespace = namespace.oid
        where concat(namespace.nspname, '.', class.relname) = :'table'::text and class.relkind in ('r', 'p')
    ) as is_there,
    array(
        select distinct status.queue_name
        from pgq.capture_status as status
        where status.table_name = :'table'::text
        order by status.queue_name
    ) as logs
