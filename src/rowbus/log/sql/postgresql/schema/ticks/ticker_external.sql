-- Write exactly this tick into a queue that has an external ticker, with the current snapshot, and advance both
-- sequences to it, never back. Notifies the queue's channel. Returns the tick's id.
-- Takes the queue's ticker lock until the end of the transaction, waiting for it, so that of ticks written at the same
-- time the later one has the later snapshot. As with PgQ a tick may follow one with a higher id, and the transaction
-- may keep an old snapshot, either of which can make duplicates; the queue's option ordered_ticks forbids both.
create or replace function pgq.ticker(
    i_queue_name text, i_tick_id bigint, i_orig_timestamp timestamptz, i_event_seq bigint
)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_before pgq.tick;
begin
    select * into v_queue from pgq.queue
    where queue_name = i_queue_name and queue_external_ticker and not queue_ticker_paused;
    if not found then
        raise exception 'queue not found or ticker disabled: %', i_queue_name;
    end if;
    perform pg_advisory_xact_lock(1885827444, v_queue.queue_id); -- that of pgq.ticker(text)
    perform pgq._check_tick_order(v_queue, i_tick_id);
    select * into v_before from pgq.tick
    where tick_queue = v_queue.queue_id and tick_id < i_tick_id
    order by tick_id desc
    limit 1;
    perform pgq._insert_tick(v_queue, v_before, i_tick_id, i_orig_timestamp, i_event_seq);
    perform pgq._queue_sequence(v_queue.queue_tick_seq), pgq._queue_sequence(v_queue.queue_event_seq);
    perform pgq.seq_setval(v_queue.queue_tick_seq, i_tick_id);
    perform pgq.seq_setval(v_queue.queue_event_seq, i_event_seq);
    return i_tick_id;
end
$$;
