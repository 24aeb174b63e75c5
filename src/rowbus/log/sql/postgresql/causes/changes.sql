-- List the changes of captured tables that logs still hold, the oldest first: of one table and its partitions, those
-- whose data hold a text (its case does not matter) and those that empty it; or those whose cause holds a text. A name
-- in a log is that of the table of which the log next tells that it was altered or dropped, else of who has it now.
-- Reads all events, which have an index of transactions only. Locks nothing; returns a row a change, in the order of
-- `_ChangeRow` in log/causes.py.
with told as materialized (
    select
        ev.ev_id,
        ev.ev_extra1 as name,
        heir.inhparent as log_table,
        substring(ev.ev_data from '^[{]"oid": ([0-9]{1,10}),')::bigint as table_oid
    from pgq.event_template as ev
    inner join pg_inherits as heir on ev.tableoid = heir.inhrelid
    where
        :'table'::text is not null
        and (ev.ev_type like '{"op"%ALTER%' or ev.ev_type like '{"op"%DROP%')
),

wanted as materialized (
    select
        class.oid::bigint as table_oid,
        namespace.nspname || '.' || class.relname as name
    from pg_class as class
    inner join pg_namespace as namespace on class.relnamespace = namespace.oid
    where
        class.oid = to_regclass(:'table'::text)
        or class.oid in (select tree.relid from pg_partition_tree(to_regclass(:'table'::text)) as tree)
)

select
    (
        select queue.queue_name
        from pgq.queue
        inner join pg_class as class on ev.tableoid = class.oid
        inner join pg_namespace as namespace on class.relnamespace = namespace.oid
        where starts_with(namespace.nspname || '.' || class.relname, queue.queue_data_pfx || '_')
    ) as log_name,
    ev.ev_id,
    ev.ev_time,
    ev.ev_txid,
    ev.ev_type,
    ev.ev_data,
    ev.ev_extra1,
    ev.ev_extra4,
    (
        select jsonb_object_agg(column_.attname, type.typname)
        from pg_attribute as column_
        inner join pg_type as type on column_.atttypid = type.oid
        where
            column_.attrelid = to_regclass(:'table'::text) and column_.attnum > 0
            and type.typnamespace = 'pg_catalog'::regnamespace
    ) as types
from pgq.event_template as ev
where
    ev.ev_owner is null
    and ev.ev_extra1 is not null
    and (
        :'table'::text is null
        or coalesce(
            (
                select told.table_oid
                from told
                inner join pg_inherits as heir on told.log_table = heir.inhparent
                where heir.inhrelid = ev.tableoid and told.name = ev.ev_extra1 and told.ev_id > ev.ev_id
                order by told.ev_id
                limit 1
            ),
            (select wanted.table_oid from wanted where wanted.name = ev.ev_extra1)
        ) in (select wanted.table_oid from wanted)
        or (to_regclass(:'table'::text) is null and ev.ev_extra1 = :'table'::text)
    )
    and (
        :'in_data'::text is null
        or strpos(lower(ev.ev_data), lower(:'in_data'::text)) > 0
        or ev.ev_type = 'R'
        or ev.ev_type like '{"op"%TRUNCATE%'
    )
    and (:'in_cause'::text is null or strpos(ev.ev_extra4, :'in_cause'::text) > 0)
order by ev.ev_time, ev.ev_id
