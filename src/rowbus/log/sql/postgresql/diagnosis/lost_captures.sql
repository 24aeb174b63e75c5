-- List the tables that were captured into a log, dropped, and made anew under the same name without being captured into it.
-- Locks nothing. Returns a row a log and table, in the order of `LostCapture` in log/diagnosis.py.
with told as (
    select distinct on (shape.cs_queue, shape.cs_table, shape.cs_trigger)
        shape.cs_queue,
        shape.cs_table,
        shape.cs_state,
        shape.cs_shape -> 'table' ->> 0 as schema_name,
        shape.cs_shape -> 'table' ->> 1 as table_name
    from pgq.capture_shape as shape
    order by shape.cs_queue asc, shape.cs_table asc, shape.cs_trigger asc, shape.cs_id desc
)

select distinct
    told.cs_queue,
    relation.oid::regclass::text as table_name
from told
inner join pgq.queue as log on told.cs_queue = log.queue_name
inner join pg_catalog.pg_namespace as namespace on told.schema_name = namespace.nspname::text
inner join pg_catalog.pg_class as relation
    on namespace.oid = relation.relnamespace and told.table_name = relation.relname::text
where
    told.cs_state <> 'released'
    and not exists (select from pg_catalog.pg_class as earlier where earlier.oid = told.cs_table)
    and not exists (
        select
        from pgq.capture_status as status
        where status.queue_name = told.cs_queue and status.table_id = relation.oid
    )
order by told.cs_queue, table_name
