-- Say how the tables captured into a log look now: columns with the types below their domains, the key, a shape that
-- differs after every ALTER TABLE, with another key, with other partitions and when it was captured no longer for a while, its form (see `form.TableForm`), and the query that reads the
-- rows, most values as the text that triggers write. Columns that are computed when they are read are left out and named apart: triggers see none of them.
-- The version, and the query for it, differ after every ALTER TABLE: it says whether a copy's snapshot shows this form.
-- A partition was born in its place where one of its columns is as CREATE TABLE made it: ATTACH PARTITION writes them
-- all again. So it had no rows before, whose events would be missing.
-- A type outside of `pg_catalog` is called `other`, and its array `_other`; an array without commas is `other`, too.
-- A deferrable key is no key for a moment: an update may give it to a row before it takes it from another.
-- Bare in JSON are boolean, bigint, smallint and int, but no domains over them.
-- Locks nothing. Returns a row a trigger, in the order of `source_table.SourceTable`.
select
    status.table_name as source_table,
    status.format as trigger_format,
    array(select argument.value from unnest(status.arguments) as argument (value)) as arguments,
    coalesce(
        regexp_split_to_array(btrim(options.o_key), '[[:space:]]*,[[:space:]]*'),
        string_to_array(pgq.exact_key(status.table_id, status.arguments), ','),
        '{}'
    ) as key_columns,
    coalesce(described.column_names, '{}') as column_names,
    coalesce(described.type_names, '{}') as type_names,
    coalesce(described.modifiers, '{}') as modifiers,
    coalesce(described.bare, '{}') as bare,
    described.virtual_names,
    described.shape,
    format(
        'select %s from %s %I.%I', described.list, case class.relkind when 'r' then 'only' end,
        namespace.nspname, class.relname
    ) as reading,
    jsonb_build_object(
        'table', class.oid::bigint, 'trigger', status.trigger_id::bigint,
        'files', class.relfilenode::text, 'parts', coalesce(parts.files, '{}'),
        'born', coalesce(parts.born, '[]'),
        'last', class.relnatts, 'plain', class.relkind = 'r', 'columns', coalesce(described.forms, '[]')
    )::text as form,
    described.version,
    format(
        'select md5(string_agg(concat_ws('':'', attnum, xmin), '','' order by attnum)) as version '
        'from pg_catalog.pg_attribute where attrelid = %s and attnum > 0', class.oid
    ) as versioning,
    coalesce(options.o_key, pgq.table_key(status.table_id)) is not null as is_keyed,
    exists(
        select 1
        from pg_catalog.pg_constraint as c
        where c.conrelid = class.oid and c.contype = 'p' and c.condeferrable and options.o_key is null
    ) as is_deferrable,
    options.o_key is null or exists (
        select 1
        from pg_catalog.pg_index as i
        where
            i.indrelid = class.oid and i.indisunique and i.indpred is null and i.indexprs is null
            and not exists (
                select 1
                from unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
                inner join pg_catalog.pg_attribute as a on k.attnum = a.attnum and i.indrelid = a.attrelid
                where
                    k.place <= i.indnkeyatts
                    and a.attname <> all(
                        regexp_split_to_array(btrim(options.o_key), '[[:space:]]*,[[:space:]]*')
                    )
            )
    ) as is_told_apart
from pgq.capture_status as status
inner join pg_catalog.pg_class as class on status.table_id = class.oid
inner join pg_catalog.pg_namespace as namespace on class.relnamespace = namespace.oid
cross join lateral pgq.trigger_options(status.arguments) as options
cross join lateral (
    select
        jsonb_object_agg(p.oid::bigint::text, p.place || ':' || p.file) as files,
        jsonb_agg(p.oid::bigint::text) filter (where p.is_born) as born,
        string_agg(p.oid::text || ':' || p.place, ',' order by p.oid) as places
    from (
        select
            part.oid,
            part.relfilenode::text as file,
            i.xmin::text as place,
            made.columns > 0 as is_born
        from pg_catalog.pg_partition_tree(class.oid) as tree
        inner join pg_catalog.pg_class as part on tree.relid = part.oid
        inner join pg_catalog.pg_inherits as i on part.oid = i.inhrelid
        inner join pg_catalog.pg_type as t on part.reltype = t.oid
        cross join lateral (
            select count(*) as columns
            from pg_catalog.pg_attribute as a
            where
                a.attrelid = part.oid and a.attnum > 0 and not a.attisdropped
                and a.xmin = i.xmin and t.xmin = i.xmin and a.cmin = t.cmin
        ) as made
        where tree.relid <> class.oid
    ) as p
) as parts
cross join lateral (
    select
        array_agg(c.attname::text order by c.attnum) as column_names,
        array_agg(c.type_name order by c.attnum) as type_names,
        array_agg(c.modifier order by c.attnum) as modifiers,
        array_agg(c.atttypid in (16, 20, 21, 23) order by c.attnum) as bare,
        array(
            select v.attname::text
            from pg_catalog.pg_attribute as v
            where v.attrelid = class.oid and v.attgenerated = 'v' and not v.attisdropped
        ) as virtual_names,
        md5(
            concat(
                coalesce(options.o_key, pgq.exact_key(status.table_id, status.arguments)), '|',
                string_agg(
                    concat_ws(':', c.attnum, c.attname, c.atttypid, c.atttypmod, c.xmin, c.mask, c.labels),
                    ','
                    order by c.attnum
                ),
                '|' || parts.places, '|', status.trigger_id
            )
        ) as shape,
        (
            select md5(string_agg(concat_ws(':', v.attnum, v.xmin), ',' order by v.attnum))
            from pg_catalog.pg_attribute as v
            where v.attrelid = class.oid and v.attnum > 0
        ) as version,
        jsonb_agg(
            jsonb_build_object(
                'number', c.attnum, 'name', c.attname, 'type', c.type_name, 'modifier', c.modifier,
                'mask', c.mask, 'filled', c.filled, 'labels', c.labels
            )
            order by c.attnum
        ) as forms,
        string_agg(
            format(
                case
                    when c.mask <> 'null'
                        then 'case when %1$I is not null then pgq.masked(pg_catalog.concat(%1$I), %3$L) end'
                    when
                        c.type_name in (
                            'bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'bytea', 'text', 'varchar'
                        )
                        then 'case when %4$L then %1$I::pg_catalog.%2$I end'
                    else 'case when %4$L and pg_catalog.num_nulls(%1$I) = 0 then pg_catalog.concat(%1$I) end'
                end || ' as %1$I',
                c.attname, c.type_name, c.mask, c.mask is null
            ),
            ', ' order by c.attnum
        ) as list
    from (
        with recursive base as (
            select
                a.attnum,
                a.atttypid as type_id,
                a.atttypmod as modifier
            from pg_catalog.pg_attribute as a
            where
                a.attrelid = class.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated <> 'v'
            union all
            select
                b.attnum,
                t.typbasetype as type_id,
                t.typtypmod as modifier
            from base as b
            inner join pg_catalog.pg_type as t on b.type_id = t.oid
            where t.typtype = 'd'
        )

        select
            a.attnum,
            a.attname,
            a.atttypid,
            a.atttypmod,
            a.xmin,
            (a.attmissingval::text::text[])[1] as filled,
            case
                when e.typnamespace = 'pg_catalog'::regnamespace and e.typdelim = ',' then '_' || e.typname
                when e.typdelim = ',' then '_other'
                when e.oid is null and t.typnamespace = 'pg_catalog'::regnamespace then t.typname::text
                else 'other'
            end as type_name,
            b.modifier,
            pgq.column_mask(status.arguments, a.attname::text) as mask,
            (
                select jsonb_object_agg(label.oid::bigint::text, label.enumlabel)
                from pg_catalog.pg_enum as label
                where label.enumtypid = coalesce(e.oid, t.oid)
            ) as labels
        from base as b
        inner join pg_catalog.pg_type as t on b.type_id = t.oid
        left join pg_catalog.pg_type as e on t.oid = e.typarray
        inner join pg_catalog.pg_attribute as a on b.attnum = a.attnum
        where
            a.attrelid = class.oid
            and t.typtype <> 'd'
            and a.attname <> all(coalesce(string_to_array(options.o_ignored, ','), '{}'))
    ) as c
) as described
where
    status.queue_name = :'log'::text
    and class.relkind = case when 'as-root' = any(status.arguments) then 'p' else 'r' end
    and not (class.relkind = 'p' and status.is_inherited)
order by status.table_name, status.trigger_name
