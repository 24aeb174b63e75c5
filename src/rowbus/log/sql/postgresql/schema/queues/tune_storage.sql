-- Tell PostgreSQL that the event tables only grow and are then truncated: full pages, and no vacuum.
-- Locks these tables for a moment, against vacuum and DDL; returns 1, or 0 when there is no such queue.
create or replace function pgq.tune_storage(i_queue_name text)
returns integer
language plpgsql
strict
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        return 0;
    end if;
    for i_number in 0..v_queue.queue_ntables - 1 loop
        execute format(
            'alter table %s set '
            '(fillfactor = 100, autovacuum_enabled = off, toast.autovacuum_enabled = off)',
            pgq._event_table(v_queue.queue_data_pfx || '_' || i_number)
        );
    end loop;
    return 1;
end;
$$;
