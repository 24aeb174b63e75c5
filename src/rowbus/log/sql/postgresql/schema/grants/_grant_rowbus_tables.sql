-- Grant the tables and views that are Rowbus's own: PUBLIC may read states, but not dead letters, which are events.
-- Which version there is, which code was generated for captured tables, and which shapes were told, only the schema's own functions write.
-- Locks catalogue rows; returns nothing.
create or replace function pgq._grant_rowbus_tables(i_style text)
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_table record;
begin
    for v_table in
        select
            c.oid::regclass as name,
            c.relname = 'dead_letter' and i_style = 'new' as is_private,
            c.relname in ('schema_version', 'capture_code', 'capture_shape') as is_internal
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'v')
            and c.relname not in ('consumer', 'queue', 'tick', 'subscription', 'event_template', 'retry_queue')
            and not exists (select from pg_inherits where inhrelid = c.oid)
    loop
        execute format('revoke all on %s from public, pgq_reader, pgq_writer, pgq_admin', v_table.name);
        execute format(
            'grant select on %s to %s', v_table.name, case when v_table.is_private then 'pgq_reader' else 'public' end
        );
        if i_style = 'new' and not v_table.is_internal then
            execute format('grant select, insert, update, delete on %s to pgq_admin', v_table.name);
        end if;
    end loop;
end;
$$;
revoke execute on function pgq._grant_rowbus_tables(text) from public;
