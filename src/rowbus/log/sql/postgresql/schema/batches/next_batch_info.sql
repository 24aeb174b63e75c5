-- Give a consumer its open batch, or open the next one, and tell between which ticks it lies.
-- Locks the subscription until the transaction ends if it opens one; returns one row, of NULLs if there is no new tick.
create or replace function pgq.next_batch_info(
    i_queue_name text,
    i_consumer_name text,
    out batch_id bigint,
    out cur_tick_id bigint,
    out prev_tick_id bigint,
    out cur_tick_time timestamptz,
    out prev_tick_time timestamptz,
    out cur_tick_event_seq bigint,
    out prev_tick_event_seq bigint
)
language plpgsql
as $$
begin
    select b.*
    into batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time, cur_tick_event_seq, prev_tick_event_seq
    from pgq.next_batch_custom(i_queue_name, i_consumer_name, null, null, null) as b;
end;
$$;
