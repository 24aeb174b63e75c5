-- Describe an open batch.
-- Locks nothing; returns one row, of NULLs for a batch that is not open. `lag` is the age of its end tick.
create or replace function pgq.get_batch_info(
    x_batch_id bigint,
    out queue_name text,
    out consumer_name text,
    out batch_start timestamptz,
    out batch_end timestamptz,
    out prev_tick_id bigint,
    out tick_id bigint,
    out lag interval,
    out seq_start bigint,
    out seq_end bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    select
        q.queue_name,
        c.co_name,
        p.tick_time,
        n.tick_time,
        b.last_tick,
        b.next_tick,
        now() - n.tick_time,
        p.tick_event_seq,
        n.tick_event_seq
    into queue_name, consumer_name, batch_start, batch_end, prev_tick_id, tick_id, lag, seq_start, seq_end
    from pgq._open_batch(x_batch_id) as b
    join pgq.queue as q on q.queue_id = b.queue_id
    join pgq.consumer as c on c.co_id = b.consumer_id
    join pgq.tick as p on p.tick_queue = b.queue_id and p.tick_id = b.last_tick
    join pgq.tick as n on n.tick_queue = b.queue_id and n.tick_id = b.next_tick;
end;
$$;
