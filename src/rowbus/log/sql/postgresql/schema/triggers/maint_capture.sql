-- Makes generated code for the row triggers of this database that have none or stale code, and removes what no trigger
-- uses, the next time. Returns how many functions it made and removed. Needs no rights on the tables. Locks: one run at a time, by an
-- advisory lock; nothing on the tables. Sessions use the new code from their next statement on.
create or replace function pgq.maint_capture()
returns int4
language plpgsql volatile security definer
set search_path = pg_catalog, pgq, pg_temp
set quote_all_identifiers = off as $$
declare
    v_changes int4;
begin
    perform pg_advisory_xact_lock(hashtextextended('pgq.maint_capture', 0));
    perform pgq.try_follow_partitions();
    perform pgq.tell_shapes();
    v_changes := pgq.make_captures(null);
    delete from pgq.capture_code as k
    where not exists (
        select from pgq.capture_status as s
        where s.table_id = k.cc_table and s.format = k.cc_format and s.trigger_args = k.cc_args
    );
    perform pgq.replace_generated_event();
    return v_changes + pgq.drop_captures();
end
$$;

-- Makes the code that the triggers of some tables lack, or of all (null); looks at no others, so that who alters a table
-- does not pay for those of strangers. Returns how many functions it made.
create or replace function pgq.make_captures(i_tables oid[])
returns int4
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
begin
    return (
        select coalesce(sum(pgq.make_capture(e.table_id, e.format, e.trigger_args)), 0)
        from (
            select distinct s.table_id, s.format, s.trigger_args
            from pgq.capture_status as s
            where (i_tables is null or s.table_id = any(i_tables)) and s.generated <> 'yes'
        ) as e
    );
end
$$;

-- Makes the code for one table, format and arguments or, where there is nothing to gain, forgets it. Returns 1 when it
-- made some. A table that it fails for (dropped meanwhile, say) is left to row_event, with a warning.
create or replace function pgq.make_capture(i_table oid, i_format text, i_args text[])
returns int4
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_body text := pgq.capture_body(i_table, i_format, i_args);
begin
    if v_body is null then
        delete from pgq.capture_code where cc_table = i_table and cc_format = i_format and cc_args = i_args;
        return 0;
    end if;
    perform pgq.keep_capture(i_table, i_format, i_args, v_body);
    return 1;
exception
    when others then
        raise warning 'no code for the % trigger of table %: %', i_format, i_table, sqlerrm;
        return 0;
end
$$;

-- Stores the code for one table, format and arguments.
create or replace function pgq.keep_capture(i_table regclass, i_format text, i_args text[], i_body text)
returns void
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_name text := pg_catalog.format(
        'captured_%s_%s', i_table::oid, pg_catalog.left(pg_catalog.md5(pg_catalog.concat(i_format, i_args::text)), 12)
    );
begin
    execute pg_catalog.format(
        'create or replace function pgq.%I(i_op text, i_new anyelement, i_old anyelement, i_args text[]) '
        || 'returns text[] language sql stable as %L', v_name, i_body
    );
    insert into pgq.capture_code (cc_table, cc_format, cc_args, cc_shape, cc_function)
    values (i_table, i_format, i_args, pgq.table_shape(i_table), v_name)
    on conflict on constraint capture_code_pkey do update
        set cc_shape = excluded.cc_shape, cc_function = excluded.cc_function;
end
$$;

-- Removes the functions that capture_code no longer names; returns how many. None while a transaction runs in which
-- _generated_event still named them: who writes a row of any captured table may just be planning with that, and would fail.
create or replace function pgq.drop_captures()
returns int4
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_function regprocedure;
    v_dropped int4 := 0;
begin
    for v_function in
        select p.oid::regprocedure
        from pg_catalog.pg_proc as p
        where
            p.pronamespace = 'pgq'::regnamespace and p.proname ~ '^captured_[0-9]+_[0-9a-f]{12}$'
            and not exists (select from pgq.capture_code as k where k.cc_function = p.proname)
            and exists (
                select from pg_catalog.pg_proc as g
                where
                    g.pronamespace = 'pgq'::regnamespace and g.proname = '_generated_event'
                    and age(g.xmin) > age(pg_snapshot_xmin(pg_current_snapshot())::xid)
            )
    loop
        execute pg_catalog.format('drop function %s', v_function);
        v_dropped := v_dropped + 1;
    end loop;
    return v_dropped;
end
$$;
revoke execute on function pgq.make_captures(oid[]) from public;
revoke execute on function pgq.make_capture(oid, text, text[]) from public;
revoke execute on function pgq.keep_capture(regclass, text, text[], text) from public;
revoke execute on function pgq.drop_captures() from public;
