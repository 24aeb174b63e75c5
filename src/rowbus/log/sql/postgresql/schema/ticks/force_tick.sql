-- Advance a queue's event sequence so far that the next run of the ticker ticks the queue. Locks nothing.
-- Returns the id of the queue's newest tick; NULL for an unknown queue.
create or replace function pgq.force_tick(i_queue_name text)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    select * into v_queue from pgq.queue
    where queue_name = i_queue_name and not queue_external_ticker and not queue_ticker_paused;
    if found then
        perform setval(
            pgq._queue_sequence(v_queue.queue_event_seq),
            nextval(pgq._queue_sequence(v_queue.queue_event_seq)) + v_queue.queue_ticker_max_count * 2 + 1000
        );
    end if;
    return pgq.last_tick(i_queue_name);
end
$$;
