-- Write exactly this tick into a queue that is ticked from elsewhere, with the snapshot of now, and move both sequences
-- on to it, never back. Notifies the queue's channel. Returns the tick's id.
create or replace function pgq.ticker(
    i_queue_name text, i_tick_id bigint, i_orig_timestamp timestamptz, i_event_seq bigint
)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    select * into v_queue from pgq.queue
    where queue_name = i_queue_name and queue_external_ticker and not queue_ticker_paused;
    if not found then
        raise exception 'queue not found or ticker disabled: %', i_queue_name;
    end if;
    insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)
    values (v_queue.queue_id, i_tick_id, i_orig_timestamp, i_event_seq);
    perform pgq.seq_setval(v_queue.queue_tick_seq, i_tick_id);
    perform pgq.seq_setval(v_queue.queue_event_seq, i_event_seq);
    perform pg_notify(pgq.notify_channel(i_queue_name), i_tick_id::text);
    return i_tick_id;
end
$$;
