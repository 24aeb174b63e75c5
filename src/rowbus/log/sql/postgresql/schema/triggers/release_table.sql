-- Ends the capture of a table into a queue: drops the triggers of any name and format that put its changes there, but
-- not those that a partition has from its parent. Returns how many. Locks the table as drop trigger does.
create or replace function pgq.release_table(i_table regclass, i_queue_name text)
returns int4
language plpgsql volatile
set search_path = pg_catalog, pgq, pg_temp as $$
declare
    v_trigger name;
    v_dropped int4 := 0;
begin
    for v_trigger in
        select t.tgname
        from pg_catalog.pg_trigger as t
        where
            t.tgrelid = i_table and t.tgparentid = 0
            and t.tgfoid in ('pgq.jsontriga()'::regprocedure, 'pgq.logutriga()'::regprocedure, 'pgq.sqltriga()'::regprocedure)
            and (pgq.trigger_arguments(t.tgargs))[0] = i_queue_name
    loop
        execute pg_catalog.format('drop trigger %I on %s', v_trigger, i_table);
        perform pgq.drop_statement_triggers(i_table, '{}', array[v_trigger]);
        v_dropped := v_dropped + 1;
    end loop;
    perform pgq.note_release(i_table, i_queue_name);
    if pg_catalog.has_function_privilege('pgq.maint_capture()', 'execute') then
        perform pgq.maint_capture();
    end if;
    return v_dropped;
end
$$;
