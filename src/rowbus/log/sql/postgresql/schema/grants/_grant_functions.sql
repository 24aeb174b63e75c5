-- Grant the functions of schema pgq that _function_role has a role for, to that role or, in the old style, to PUBLIC.
-- Of the others, internal and generated ones, their files say who may call them.
-- Locks catalogue rows; returns nothing.
create or replace function pgq._grant_functions(i_style text)
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_function record;
begin
    for v_function in
        select
            p.oid::regprocedure as signature,
            pgq._function_role(p.proname, p.prosecdef) as role
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace
            and p.prokind = 'f'
            and pgq._function_role(p.proname, p.prosecdef) is not null
            and p.proname <> 'set_grants'
    loop
        execute format(
            'revoke all on function %s from public, pgq_reader, pgq_writer, pgq_admin', v_function.signature
        );
        execute format(
            'grant execute on function %s to %s',
            v_function.signature, case i_style when 'new' then v_function.role else 'public' end
        );
    end loop;
    grant execute on function pgq._count_events(int4, int8) to pgq_admin; -- insert_event_raw() needs it
end;
$$;
revoke execute on function pgq._grant_functions(text) from public;

-- Bring the privileges of the event tables in line with those of the template.
-- Locks catalogue rows; returns nothing.
create or replace function pgq._grant_event_tables()
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_table record;
begin
    for v_table in
        select q.queue_name, c.oid::regclass as name
        from pgq.queue as q
            inner join pg_class as c
                on c.oid = to_regclass(q.queue_data_pfx)
                or c.oid in (select inhrelid from pg_inherits where inhparent = to_regclass(q.queue_data_pfx))
        where pgq._is_event_table(c.oid::regclass)
    loop
        execute format('revoke all on %s from public, pgq_reader, pgq_writer, pgq_admin', v_table.name);
    end loop;
    perform pgq.grant_perms(queue_name) from pgq.queue;
end;
$$;
revoke execute on function pgq._grant_event_tables() from public;
