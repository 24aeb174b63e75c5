-- The triggers that put a table's changes into a queue. pgq.jsontriga writes JSON: ev_type {"op":...,"table":[...],"pkey":[...]},
-- ev_data an object of the row. pgq.logutriga writes url-encoded: ev_type I:key, U:key, D:key or R, ev_data name=value
-- pairs. pgq.sqltriga writes SQL: ev_type I, U, D or R, ev_data a fragment of the statement that repeats the change.
-- They differ in nothing else, but a function cannot share the rows of another's table: so one text makes all three.
-- Arguments: the queue, then SKIP, ignore=, pkey=, backup, deny, ev_type= ..., when=, exact, cause. Code that maint_capture has generated
-- for the table makes the event; where there is none, row_event does, after tell_row. Locks what pgq.insert_event does.
-- Each expression costs a little at its first use in a transaction: the usual way through has few, and tests in pairs.
do $do$
declare
    v_trigger record;
begin
    for v_trigger in
        select t.name, t.format
        from (values ('jsontriga', 'json'), ('logutriga', 'url'), ('sqltriga', 'sql')) as t (name, format)
    loop
        execute format(
            $template$
create or replace function pgq.%1$I()
returns trigger
language plpgsql as $function$
declare
    v_event pg_catalog.text[];
    v_id bigint;
begin
    if tg_level operator(pg_catalog.=) 'ROW'
        and pg_catalog.current_setting('session_replication_role') operator(pg_catalog.<>) 'local'
    then
        if tg_op operator(pg_catalog.=) 'INSERT' then
            v_event := pgq.generated_event(%2$L, 'INSERT', new, new, tg_argv);
        elsif tg_op operator(pg_catalog.=) 'UPDATE' then
            v_event := pgq.generated_event(%2$L, 'UPDATE', new, old, tg_argv);
        else
            v_event := pgq.generated_event(%2$L, 'DELETE', old, old, tg_argv);
        end if;
        if v_event is null then
            perform pgq.tell_row(new, tg_relid::pg_catalog.regclass, tg_name::pg_catalog.text, tg_argv);
            v_event := pgq.row_event(
                %2$L, tg_op, tg_when, new, old, tg_argv, array[tg_table_schema, tg_table_name]
            );
            if pg_catalog.cardinality(v_event) operator(pg_catalog.>) 6 then
                v_id := pgq.insert_event(
                    tg_argv[0], v_event[1], v_event[2], v_event[3], v_event[4], v_event[5], v_event[6]
                );
                v_event := v_event[7:];
            end if;
        end if;
    elsif pg_catalog.current_setting('session_replication_role') operator(pg_catalog.<>) 'local' then
        if pgq.is_exact(tg_argv) then
            perform pgq.tell_shape(tg_relid::pg_catalog.regclass, tg_name::pg_catalog.text);
        end if;
        v_event := pgq.statement_event(
            %2$L, tg_op, tg_when, tg_relid, tg_argv, array[tg_table_schema, tg_table_name]
        );
    else
        return case when tg_op operator(pg_catalog.=) 'DELETE' then old else new end;
    end if;
    if v_event is not null then
        v_id := pgq.insert_event(
            tg_argv[0], v_event[1], v_event[2], v_event[3], v_event[4], v_event[5], v_event[6]
        );
    end if;
    if tg_when operator(pg_catalog.=) 'AFTER' then
        return null;
    elsif 'SKIP' operator(pg_catalog.=) any(tg_argv[1:]) then
        return null;
    end if;
    return case when tg_op operator(pg_catalog.=) 'DELETE' then old else new end;
end
$function$
            $template$,
            v_trigger.name, v_trigger.format
        );
    end loop;
end
$do$;
