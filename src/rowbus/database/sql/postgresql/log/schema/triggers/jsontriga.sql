-- Trigger that puts a table's changes into a queue as JSON: ev_type {"op":…,"table":[…],"pkey":[…]}, ev_data an object of the row.
-- Arguments: the queue, then SKIP, ignore=, pkey=, backup, deny, ev_type= …, when=. Code that maint_capture has generated
-- for the table makes the event; where there is none, row_event does. Locks what pgq.insert_event does.
-- Each expression costs a little at its first use in a transaction: the usual way through has few, and tests in pairs.
create or replace function pgq.jsontriga()
returns trigger
language plpgsql as $$
declare
    v_event text[];
    v_id bigint;
begin
    if tg_level = 'ROW' and pg_catalog.current_setting('session_replication_role') <> 'local' then
        if tg_op = 'INSERT' then
            v_event := pgq.generated_event('json', 'INSERT', new, new, tg_argv);
        elsif tg_op = 'UPDATE' then
            v_event := pgq.generated_event('json', 'UPDATE', new, old, tg_argv);
        else
            v_event := pgq.generated_event('json', 'DELETE', old, old, tg_argv);
        end if;
        if v_event is null then
            v_event := pgq.row_event(
                'json', tg_op, tg_when, new, old, tg_argv, array[tg_table_schema, tg_table_name]
            );
        end if;
    elsif pg_catalog.current_setting('session_replication_role') <> 'local' then
        v_event := pgq.statement_event(
            'json', tg_op, tg_when, tg_relid, tg_argv, array[tg_table_schema, tg_table_name]
        );
    else
        return case tg_op when 'DELETE' then old else new end;
    end if;
    if v_event is not null then
        v_id := pgq.insert_event(
            tg_argv[0], v_event[1], v_event[2], v_event[3], v_event[4], v_event[5], v_event[6]
        );
    end if;
    if tg_when = 'AFTER' then
        return null;
    elsif 'SKIP' = any(tg_argv[1:]) then
        return null;
    end if;
    return case tg_op when 'DELETE' then old else new end;
end
$$;
