-- Events of a captured table's changes of shape (docs/wire-format.md#changes-of-shape). Who tells one holds a lock on the
-- table that ALTER TABLE waits for, so that the events stand in the log where the shape changed: the event triggers in the
-- transaction that changes it; where there are none, the next row's trigger or maintenance. Nobody waits for another who
-- tells the same: it is told twice then.

-- Returns the shape of a table as the events of a trigger with these arguments show it. Locks nothing.
create or replace function pgq.shown_shape(i_table regclass, i_args text[])
returns jsonb
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp
set quote_all_identifiers = off as $$
declare
    v_ignored text[] := listed_columns((trigger_options(i_args)).o_ignored, table_columns(i_table));
    v_key text := coalesce((trigger_options(i_args)).o_key, exact_key(i_table, i_args));
begin
    return (
        select jsonb_build_object(
            'table', event_table(i_table, '{}'), 'pkey', coalesce(regexp_split_to_array(v_key, ','), '{}'),
            'columns', coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                'number', a.attnum, 'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
                'required', a.attnotnull, 'generated', nullif(a.attgenerated::text, ''),
                'mask', column_mask(i_args, a.attname)
            )) order by a.attnum), '[]')
        )
        from pg_attribute as a
        where
            a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
            and a.attname <> all(coalesce(v_ignored, '{}'))
    );
end
$$;

-- Returns what was told last of the table that a trigger's events name. Locks nothing.
create or replace function pgq.told_shape(i_queue text, i_table oid, i_trigger text)
returns pgq.capture_shape
language sql stable
set search_path = pg_catalog, pgq, pg_temp as $$
    select s from pgq.capture_shape as s
    where s.cs_table = i_table and s.cs_queue = i_queue and s.cs_trigger = i_trigger
    order by s.cs_id desc limit 1;
$$;

-- Says whether the log knows the shape that a table has now, as a trigger shows it. Locks nothing.
create or replace function pgq.is_told(i_table regclass, i_trigger text, i_args text[])
returns boolean
language sql stable
set search_path = pg_catalog, pgq, pg_temp as $$
    select coalesce(t.cs_state = 'captured' and t.cs_shape = shown_shape(n.named, i_args), false)
    from named_table(i_table, i_args) as n (named)
    cross join lateral told_shape(i_args[0], n.named, i_trigger) as t;
$$;

-- Returns the columns that are new since a shape was told and that earlier rows do not show as NULL: the text of their
-- value, or null where it is not known, as of those that were there and not shown. Locks nothing.
create or replace function pgq.filled_columns(i_table regclass, i_args text[], i_told pgq.capture_shape)
returns jsonb
language sql stable
set search_path = pg_catalog, pgq, pg_temp
set datestyle = 'ISO' set extra_float_digits = 1 set intervalstyle = 'postgres' set bytea_output = 'hex'
set quote_all_identifiers = off set timezone = 'UTC' set lc_monetary = 'C' as $$
    select coalesce(jsonb_object_agg(
        a.attname,
        case when a.atthasmissing and a.attnum > i_told.cs_attributes
            then masked((a.attmissingval::text::text[])[1], column_mask(i_args, a.attname))
        end
    ), '{}')
    from pg_attribute as a
    inner join pg_type as t on a.atttypid = t.oid
    where
        a.attrelid = i_table and a.attnum > 0 and not a.attisdropped and a.attgenerated <> 'v'
        and (
            a.attnum <= i_told.cs_attributes or a.atthasmissing or a.atthasdef or a.attidentity <> '' or t.typdefault is not null
        )
        and a.attnum <> all(array(select (c ->> 'number')::int2 from jsonb_array_elements(i_told.cs_shape -> 'columns') as c));
$$;

-- Tells the log the shape of a captured table, if it has another than was told last, or if its rows were rewritten; the
-- first is only noted. i_trigger: the trigger of the rows or of TRUNCATE; i_rewritten: whether the rows were written anew,
-- null where it is not known. What PgQ's own triggers write has no such events. Locks what pgq.insert_event does.
create or replace function pgq.tell_shape(i_table regclass, i_trigger text, i_rewritten boolean default null)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_capture record;
    v_told pgq.capture_shape;
    v_shape jsonb;
    v_change jsonb;
begin
    for v_capture in
        select s.trigger_name, s.trigger_args, s.queue_name, n.named, pg_relation_filenode(n.named) as file, c.relnatts, c.relkind
        from pgq.capture_status as s
        cross join lateral named_table(s.table_id, s.trigger_args) as n (named)
        inner join pg_class as c on n.named = c.oid
        where
            s.table_id = i_table and is_exact(s.trigger_args)
            and s.trigger_name in (i_trigger, regexp_replace(i_trigger, '_truncat(e|ing)$', ''))
    loop
        v_told := told_shape(v_capture.queue_name, v_capture.named, v_capture.trigger_name);
        v_shape := shown_shape(v_capture.named, v_capture.trigger_args);
        v_change := null;
        if v_told.cs_state = 'captured' then
            continue when v_told.cs_shape = v_shape and i_rewritten is not true;
            v_change := jsonb_build_object(
                'oid', v_capture.named::oid::int8, 'before', v_told.cs_shape, 'after', v_shape,
                'filled', filled_columns(v_capture.named, v_capture.trigger_args, v_told),
                'rewritten', coalesce(
                    i_rewritten, v_capture.relkind = 'p' or v_told.cs_file is distinct from v_capture.file
                ) or exists (
                    select from jsonb_array_elements(v_told.cs_shape -> 'columns') as b
                    inner join jsonb_array_elements(v_shape -> 'columns') as a on a -> 'number' = b -> 'number'
                    where a -> 'mask' is distinct from b -> 'mask'
                )
            );
        end if;
        insert into pgq.capture_shape (
            cs_queue, cs_table, cs_trigger, cs_shape, cs_attributes, cs_file, cs_change, cs_event
        ) values (
            v_capture.queue_name, v_capture.named, v_capture.trigger_name, v_shape, v_capture.relnatts, v_capture.file, v_change,
            case when v_change is not null then pgq.append_change(v_capture.queue_name, 'ALTER', v_change) end
        );
    end loop;
end
$$;

-- Appends the event of a change; returns its number. Locks what pgq.insert_event does.
create or replace function pgq.append_change(i_queue text, i_op text, i_change jsonb)
returns int8
language sql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
    select pgq.insert_event(
        i_queue,
        event_type('json', i_op, b.name, (select string_agg(k, ',') from jsonb_array_elements_text(i_change -> 'before' -> 'pkey') as k)),
        i_change::text, array_to_string(b.name, '.'), null, null, null
    )
    from (select array(select jsonb_array_elements_text(i_change -> 'before' -> 'table')) as name) as b;
$$;
revoke execute on function pgq.append_change(text, text, jsonb) from public;

-- Tells it in the trigger of a row that no generated code is for: once in a transaction for each shape. Locks nothing else.
-- Invariant: what the planner found out about the table is in one plan with the table's name (see row_table).
create or replace function pgq.tell_row(i_row anyelement, i_table regclass, i_trigger text, i_args text[])
returns void
language plpgsql volatile as $$
declare
    v_shape pg_catalog.text := case
        when i_trigger is null then pgq.row_table(case when false then i_row end)::pg_catalog.text
        else pgq.row_shape(case when false then i_row end)
    end;
    v_setting pg_catalog.text := pg_catalog.concat(
        'rowbus.told_', i_table::pg_catalog.oid, '_', pg_catalog.left(pg_catalog.md5(i_trigger), 8)
    );
begin
    if pgq.is_exact(i_args) and coalesce(pg_catalog.current_setting(v_setting, true), '') operator(pg_catalog.<>) v_shape then
        perform pgq.tell_shape(i_table, i_trigger);
        perform pg_catalog.set_config(v_setting, v_shape, true);
    end if;
end
$$;

-- Tells what maintenance finds: first shapes, shapes of tables that it can lock without waiting, and that tables are gone.
-- Of a table that was made anew and captured again, as when a dump is restored, nothing is told.
create or replace function pgq.tell_shapes()
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_capture record;
begin
    for v_capture in
        select s.table_id, s.trigger_name
        from pgq.capture_status as s
        where is_exact(s.trigger_args) and not is_told(s.table_id, s.trigger_name, s.trigger_args)
    loop
        begin
            execute format('lock table only %s in access share mode nowait', v_capture.table_id::regclass);
            perform tell_shape(v_capture.table_id, v_capture.trigger_name);
        exception
            when insufficient_privilege or lock_not_available or undefined_table then
                null;
        end;
    end loop;
    perform tell_drop(d.cs_table) from (
        select distinct t.cs_table from pgq.capture_shape as t where not exists (select from pg_class as c where c.oid = t.cs_table)
    ) as d;
end
$$;

-- Tells that a table was dropped, to the logs that it was captured into.
create or replace function pgq.tell_drop(i_table oid)
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_told pgq.capture_shape;
    v_change jsonb;
begin
    for v_told in
        select distinct on (t.cs_queue, t.cs_trigger) t.* from pgq.capture_shape as t
        where t.cs_table = i_table order by t.cs_queue, t.cs_trigger, t.cs_id desc
    loop
        continue when v_told.cs_state <> 'captured' or exists (
            select from pgq.capture_status as s
            where
                s.queue_name = v_told.cs_queue
                and s.table_name = concat(v_told.cs_shape -> 'table' ->> 0, '.', v_told.cs_shape -> 'table' ->> 1)
        );
        v_change := jsonb_build_object(
            'oid', i_table::int8, 'before', v_told.cs_shape, 'after', null, 'filled', '{}'::jsonb, 'rewritten', false
        );
        insert into pgq.capture_shape (cs_queue, cs_table, cs_trigger, cs_state, cs_shape, cs_change, cs_event)
        values (
            v_told.cs_queue, i_table, v_told.cs_trigger, 'dropped', v_told.cs_shape, v_change,
            append_change(v_told.cs_queue, 'DROP', v_change)
        );
    end loop;
end
$$;

-- Notes that a table is no longer captured into a log, also one of its name that is gone: no one misses it then.
create or replace function pgq.note_release(i_table regclass, i_queue_name text)
returns void
language sql volatile security definer
set search_path = pg_catalog, pgq, pg_temp as $$
    insert into pgq.capture_shape (cs_queue, cs_table, cs_trigger, cs_state, cs_shape)
    select n.cs_queue, n.cs_table, n.cs_trigger, 'released', n.cs_shape
    from (
        select distinct on (t.cs_table, t.cs_trigger) t.*
        from pgq.capture_shape as t
        where
            t.cs_queue = i_queue_name and not exists (
                select from pgq.capture_status as s
                where s.table_id = t.cs_table and s.queue_name = i_queue_name and s.trigger_name = t.cs_trigger
            )
        order by t.cs_table, t.cs_trigger, t.cs_id desc
    ) as n
    where
        n.cs_state <> 'released' and (
            n.cs_table in (select i_table union select p.relid from pg_partition_tree(i_table) as p)
            or n.cs_shape -> 'table' = to_jsonb(event_table(i_table, '{}'))
        );
$$;
revoke execute on function pgq.tell_shapes() from public;
revoke execute on function pgq.tell_drop(oid) from public;
