-- Returns the columns that an update has changed (without ignored columns and but for sqltriga, only those of the key
-- are looked at), NULL when it has changed ignored ones only. Raises an error for a changed key column; with ignored
-- columns, as PgQ, only for one before the first other change. Locks nothing.
create or replace function pgq.interesting_changes(
    i_format text, i_new anyelement, i_old anyelement, i_names text[], i_kinds text[], i_key text[],
    i_ignored text[], i_args text[]
)
returns text[]
language plpgsql volatile as $$
declare
    v_changed pg_catalog.text[];
    v_name pg_catalog.text;
    v_passed boolean := false;
    v_found boolean := false;
begin
    v_changed := pgq.changed_columns(
        i_new, i_old, i_names, i_kinds, case when i_ignored is null and i_format operator(pg_catalog.<>) 'sql' then i_key end
    );
    foreach v_name in array v_changed loop
        if v_name operator(pg_catalog.=) any(i_key) then
            perform pgq.check_expressions(i_args, i_names, pgq.row_table(i_new));
            perform pgq.refuse_key_change(i_format, pgq.row_table(i_new), i_args);
        elsif i_ignored is null then
            continue;
        elsif v_name operator(pg_catalog.=) any(i_ignored) or v_name operator(pg_catalog.~~) e'\\_pgq\\_ev\\_%' then
            v_passed := true;
        elsif i_format operator(pg_catalog.=) 'sql' then
            v_found := true;
        else
            return v_changed;
        end if;
    end loop;
    return case when v_found or not v_passed then v_changed end;
end
$$;

-- Raises PgQ's error for a changed key, and says whose trigger refuses it and what to do. Locks nothing.
create or replace function pgq.refuse_key_change(i_format text, i_table regclass, i_args text[])
returns void
language plpgsql stable
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_trigger record;
begin
    with recursive above as (
        select t.oid, t.tgname, t.tgrelid, t.tgparentid
        from pg_trigger as t
        where
            t.tgrelid = i_table and trigger_arguments(t.tgargs) = i_args
            and t.tgfoid = case i_format when 'json' then 'jsontriga()' when 'url' then 'logutriga()' else 'sqltriga()' end::regprocedure
        union all
        select t.oid, t.tgname, t.tgrelid, t.tgparentid
        from above as a join pg_trigger as t on a.tgparentid = t.oid
    )

    select a.tgname, a.tgrelid::regclass as table_id into v_trigger
    from above as a
    where a.tgparentid = 0
    order by a.tgname
    limit 1;
    raise exception using
        errcode = 'XX000', message = 'primary key update not allowed',
        detail = format('Table %s is captured into log %s by trigger %s.', i_table, i_args[0], v_trigger.tgname),
        hint = format(
            'Delete the row and insert it, or have updates of keys written as both: select pgq.capture_table(%L, %L, %L, %L, %L);',
            v_trigger.table_id, i_args[0], i_format, i_args[1:], v_trigger.tgname
        );
end
$$;
