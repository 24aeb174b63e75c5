-- Say what a replica of the tables captured into a log has to look like: name, columns with their types (and schema),
-- those that are NOT NULL, the key (none: rows are counted), what the trigger was told, the statement that copies the rows
-- (those computed when they are read are NULL, as in events), and a
-- text that is another after each event that tells of a change of shape by this table's name (they are counted: one may commit
-- after a later one, or be told late of a table that had the name before), with other partitions, and when the table was captured
-- no longer for a while; and whether the key is deferrable.
-- Needs a search_path of pg_catalog alone, so that types are spelt with their schema. Locks nothing.
-- Returns a row a trigger, in the order of `tables.replica.CapturedTable`.
select
    status.table_name,
    namespace.nspname::text as schema_name,
    class.relname::text as relation_name,
    status.format,
    array(select argument.value from unnest(status.arguments) as argument (value)) as arguments,
    described.column_names,
    described.type_names,
    described.required,
    coalesce(
        regexp_split_to_array(btrim(options.o_key), '[[:space:]]*,[[:space:]]*'),
        case
            when pgq.table_key(status.table_id) is not null
                then string_to_array(pgq.exact_key(status.table_id, status.arguments), ',')
        end,
        '{}'
    ) as key_columns,
    format(
        'copy (select %s from %s %I.%I) to stdout',
        described.list, case class.relkind when 'r' then 'only' end,
        namespace.nspname, class.relname
    ) as copying,
    concat_ws(
        ':', class.oid, status.trigger_id, status.told,
        (
            select count(*)
            from pgq.capture_shape as told
            where
                told.cs_queue = status.queue_name and told.cs_event is not null
                and to_jsonb(array[namespace.nspname, class.relname]::text[]) in (
                    told.cs_change -> 'before' -> 'table', told.cs_change -> 'after' -> 'table'
                )
        ),
        (
            select string_agg(concat_ws(' ', i.inhrelid, i.xmin), ',' order by i.inhrelid)
            from pg_catalog.pg_partition_tree(class.oid) as tree
            inner join pg_catalog.pg_inherits as i on tree.relid = i.inhrelid and tree.relid <> class.oid
        )
    ) as shape,
    exists(
        select 1
        from pg_catalog.pg_constraint as c
        where c.conrelid = class.oid and c.contype = 'p' and c.condeferrable and options.o_key is null
    ) as is_deferrable
from pgq.capture_status as status
inner join pg_catalog.pg_class as class on status.table_id = class.oid
inner join pg_catalog.pg_namespace as namespace on class.relnamespace = namespace.oid
cross join lateral pgq.trigger_options(status.arguments) as options
cross join lateral (
    select
        array_agg(a.attname::text order by a.attnum) as column_names,
        array_agg(format_type(a.atttypid, a.atttypmod) order by a.attnum) as type_names,
        array_agg(a.attname::text order by a.attnum) filter (
            where a.attnotnull and mask.rule is distinct from 'null'
        ) as required,
        string_agg(
            format(
                case mask.rule
                    when 'null' then 'case when false then %1$I end'
                    else case when mask.rule is null then '%1$I' else 'pgq.masked(%1$I::text, %2$L)' end
                end,
                a.attname, mask.rule
            ),
            ', ' order by a.attnum
        ) as list
    from pg_catalog.pg_attribute as a
    cross join lateral (
        select case a.attgenerated when 'v' then 'null' else pgq.column_mask(status.arguments, a.attname) end
    ) as mask (rule)
    where
        a.attrelid = class.oid and a.attnum > 0 and not a.attisdropped
        and a.attname <> all(coalesce(string_to_array(options.o_ignored, ','), '{}'))
) as described
where
    status.queue_name = :'log'::text
    and class.relkind = case when 'as-root' = any(status.arguments) then 'p' else 'r' end
    and not (class.relkind = 'p' and status.is_inherited)
order by status.table_name, status.trigger_name
