-- Drop what belongs to one queue: its event tables, their parent, its sequences and its insert function.
-- Locks these; returns nothing.
create or replace function pgq._drop_event_tables(i_queue pgq.queue)
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_limit_sequence text := format('pgq.event_%s_limit_seq', i_queue.queue_id);
begin
    for i_number in 0..i_queue.queue_ntables - 1 loop
        execute format('drop table %s', pgq._event_table(i_queue.queue_data_pfx || '_' || i_number));
    end loop;
    execute format('drop table %s', pgq._event_table(i_queue.queue_data_pfx));
    execute format('drop sequence %s', pgq._queue_sequence(i_queue.queue_tick_seq));
    execute format('drop sequence %s', pgq._queue_sequence(i_queue.queue_event_seq));
    if to_regclass(v_limit_sequence) is not null then
        execute format('drop sequence %s', v_limit_sequence);
    end if;
    perform pgq._drop_insert(i_queue.queue_id);
end;
$$;
revoke execute on function pgq._drop_event_tables(pgq.queue) from public;
