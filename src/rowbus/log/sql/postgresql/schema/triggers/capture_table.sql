-- Puts a table's changes into a queue: makes an AFTER row trigger for INSERT, UPDATE and DELETE, and one for TRUNCATE.
-- i_format: json, url or sql (jsontriga, logutriga, sqltriga); i_args: further arguments of the trigger
-- (docs/wire-format.md#trigger-arguments), insert-only where only new rows matter, always for a trigger that fires for
-- changes that replication applies, too, as-root for a partitioned table whose events name it and not its partitions, or
-- as-pgq for a trigger without the argument exact, which each has otherwise, and no-cause for one without cause, which
-- each exact one has that does not say what ev_extra4 is.
-- Repeating it changes the triggers to what is asked. Returns the trigger's name. Locks the table as create trigger
-- does; needs the right to. Where the caller may not run maint_capture, generated code has to wait for the next
-- maintenance.
create or replace function pgq.capture_table(
    i_table regclass, i_queue_name text, i_format text default 'json', i_args text[] default '{}',
    i_trigger_name text default null
)
returns text
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_trigger text := coalesce(i_trigger_name, pg_catalog.left('capture_' || i_queue_name, 54));
    v_only_inserts boolean := 'insert-only' = any(i_args);
    v_as_root boolean := 'as-root' = any(i_args);
    v_always boolean := 'always' = any(i_args);
    v_args text[] := pgq.capture_arguments(i_table, i_queue_name, i_format, i_args);
    v_of_truncate text[] := array(
        select a.value from unnest(v_args) with ordinality as a (value, place)
        where a.place = 1 or a.value = any('{exact,cause,deny,as-root,whole-row}') order by a.place
    );
    v_function text := case i_format when 'json' then 'jsontriga' when 'url' then 'logutriga' when 'sql' then 'sqltriga' end;
begin
    perform pgq.check_capture(i_table, i_queue_name, i_format, v_args, v_only_inserts);
    perform pgq.check_free_trigger(i_table, v_trigger);
    perform pgq.make_trigger(
        i_table, v_trigger, case when v_only_inserts then 'after insert' else 'after insert or update or delete' end,
        'row', v_function, v_args, v_always
    );
    perform pgq.drop_statement_triggers(
        i_table,
        array[
            case when v_only_inserts then v_trigger || '_truncate' end,
            case when v_only_inserts or not v_as_root then v_trigger || '_truncating' end
        ],
        array[
            case when v_only_inserts or v_as_root then v_trigger || '_truncate' end,
            case when v_only_inserts or not v_as_root then v_trigger || '_truncating' end
        ]
    );
    if not v_only_inserts then
        perform pgq.make_trigger(
            i_table, v_trigger || '_truncate', 'after truncate', 'statement', v_function, v_of_truncate, v_always
        );
    end if;
    if v_as_root and not v_only_inserts then
        perform pgq.make_trigger(
            i_table, v_trigger || '_truncating', 'before truncate', 'statement', v_function, v_args, v_always
        );
    end if;
    perform pgq.follow_partitions(i_table);
    perform pgq.tell_shape(i_table, v_trigger);
    if pg_catalog.has_function_privilege('pgq.maint_capture()', 'execute') then
        perform pgq.maint_capture();
    end if;
    return v_trigger;
end
$$;

-- Returns the arguments that the trigger of a capture gets: whole-row also where there is a key, which may be dropped.
-- Locks nothing.
create or replace function pgq.capture_arguments(
    i_table regclass, i_queue_name text, i_format text, i_args text[]
)
returns text[]
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_exact text[] := case when 'as-pgq' = any(i_args) then '{}' else '{exact}' end;
    v_cause text[] := case when not exists (
        select from unnest(i_args) as a (value) where a.value in ('as-pgq', 'no-cause') or a.value like 'ev_extra4=%'
    ) then '{cause}' end;
    v_falls_back boolean := i_format <> 'sql' and not exists (
        select from unnest(i_args) as a (value) where a.value like 'pkey=%' or a.value in ('as-pgq', 'insert-only')
    );
begin
    return i_queue_name || v_exact || v_cause || case when v_falls_back then '{whole-row}'::text[] end || array(
        select a.value from unnest(i_args) with ordinality as a (value, place)
        where a.value <> all('{insert-only,as-pgq,no-cause,always,exact,cause,whole-row}') order by a.place
    );
end
$$;

-- Makes or changes a trigger of ours. Locks the table as create trigger does.
create or replace function pgq.make_trigger(
    i_table regclass, i_name text, i_event text, i_level text,
    i_function text, i_args text[], i_always boolean
)
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
begin
    execute format(
        'create or replace trigger %I %s on %s for each %s execute function pgq.%I(%s)', i_name, i_event, i_table, i_level,
        i_function, (
            select string_agg(quote_literal(a.value), ', ' order by a.place)
            from unnest(i_args) with ordinality as a (value, place)
        )
    );
    if i_always then
        execute format('alter table %s enable always trigger %I', i_table, i_name);
    end if;
end
$$;

-- Raises what speaks against capturing a table: SQLSTATE 22023, or 42P01 for an unknown queue.
create or replace function pgq.check_capture(
    i_table regclass, i_queue_name text, i_format text, i_args text[], i_only_inserts boolean
)
returns void
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_options record := pgq.trigger_options(pg_catalog.format('[0:%s]=%s', pg_catalog.array_length(i_args, 1) - 1, i_args)::text[]);
begin
    if i_table is null or i_queue_name is null or i_format is null or i_args is null then
        raise exception using errcode = '22023', message = 'capture_table: table, queue, format and arguments must not be NULL';
    elsif not exists (select from pgq.queue as q where q.queue_name = i_queue_name) then
        raise exception using
            errcode = '42P01', message = pg_catalog.format('capture_table: queue %s does not exist', i_queue_name),
            hint = pg_catalog.format('Create it: select pgq.create_queue(%L);', i_queue_name);
    elsif i_format not in ('json', 'url', 'sql') then
        raise exception using
            errcode = '22023', message = pg_catalog.format('capture_table: unknown format %s', i_format),
            hint = 'Use json, url or sql.';
    elsif v_options.o_bad is not null then
        raise exception using
            errcode = '22023', message = pg_catalog.format('capture_table: unknown argument %s', i_args[v_options.o_bad + 1]),
            hint = 'Use ignore=..., mask=column:hash, pkey=..., backup, deny, ev_type=..., ev_data=..., ev_extra1=... to ev_extra4=..., when=..., insert-only, always, as-root, no-cause or as-pgq.';
    elsif 'as-root' = any(i_args[2:]) and i_table is distinct from pg_catalog.pg_partition_root(i_table) then
        raise exception using
            errcode = '22023', message = pg_catalog.format('capture_table: %s is no partitioned table, or a partition', i_table),
            hint = 'Capture the table above all partitions as-root, or this one without it.';
    elsif v_options.o_skip then
        raise exception using
            errcode = '22023', message = 'capture_table: SKIP needs a BEFORE trigger',
            hint = 'Create it by hand: create trigger ... before insert or update or delete on ... execute function pgq.jsontriga(...).';
    elsif not i_only_inserts and coalesce(v_options.o_key, pgq.exact_key(i_table, i_args), '') = '' then
        raise exception using
            errcode = '22023', message = pg_catalog.format('capture_table: table %s has no primary key', i_table),
            hint = 'Name its key with an argument pkey=column,..., capture new rows alone with insert-only, or use the format json or url.';
    end if;
    perform pgq.check_columns(i_table, 'ignore', v_options.o_ignored);
    perform pgq.check_columns(i_table, 'pkey', v_options.o_key);
    perform pgq.check_masks(i_table, i_args, pgq.key_columns(
        v_options.o_key, coalesce(v_options.o_key, pgq.exact_key(i_table, i_args[2:])), pgq.table_columns(i_table)
    ));
    perform pgq.check_expression_columns(i_table, i_args[2:]);
end
$$;

-- Raises SQLSTATE 42703 when an argument lists something that is no column of the table. Locks nothing.
create or replace function pgq.check_columns(i_table regclass, i_argument text, i_list text)
returns void
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_names text[] := table_columns(i_table);
    v_unknown text := i_list;
    v_name text;
begin
    for v_name in
        select n.name from unnest(listed_columns(i_list, v_names)) as n (name) order by length(n.name) desc
    loop
        v_unknown := regexp_replace(
            v_unknown,
            concat(e'(^|[,\\s])', regexp_replace(v_name, e'[][()|^$.*+?{}\\\\]', e'\\\\\\&', 'g'), e'(?=$|[,\\s])'), e'\\1', 'g'
        );
    end loop;
    v_unknown := array_to_string(regexp_split_to_array(btrim(v_unknown, e', \t\n'), e'\\s*,[,\\s]*'), ', ');
    if v_unknown <> '' then
        raise exception using
            errcode = '42703', message = format(
                'capture_table: %s has no column %s (%s=), but %s', i_table, v_unknown, i_argument, array_to_string(v_names, ', ')
            );
    end if;
end
$$;

-- Raises SQLSTATE 42703 when an expression among the arguments of a trigger names something that is no column. All else
-- in it is the writer's, in whose search path it is looked up: what is not known here is let pass. Locks nothing.
create or replace function pgq.check_expression_columns(i_table regclass, i_args text[])
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp as $$
begin
    perform pgq.check_expressions(i_args, pgq.table_columns(i_table), i_table);
exception
    when undefined_column then
        raise exception using
            errcode = '42703', message = format(
                'capture_table: %s in %s, which has %s', sqlerrm, i_table, array_to_string(pgq.table_columns(i_table), ', ')
            );
    when others then
        null;
end
$$;

-- Raises an error when the table has a trigger of this name that is none of PgQ's.
create or replace function pgq.check_free_trigger(i_table regclass, i_trigger_name text)
returns void
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
begin
    if exists (
        select from pg_catalog.pg_trigger as t
        where
            t.tgrelid = i_table and t.tgname in (i_trigger_name, i_trigger_name || '_truncate')
            and t.tgfoid not in ('pgq.jsontriga()'::regprocedure, 'pgq.logutriga()'::regprocedure, 'pgq.sqltriga()'::regprocedure)
    ) then
        raise exception using
            errcode = '42710',
            message = pg_catalog.format('capture_table: table %s has another trigger %s', i_table, i_trigger_name),
            hint = 'Give capture_table another i_trigger_name.';
    end if;
end
$$;
