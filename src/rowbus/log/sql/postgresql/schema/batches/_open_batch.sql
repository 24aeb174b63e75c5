-- Read the subscription that holds a batch.
-- Locks nothing; returns its columns, all NULL for a batch that is unknown, NULL or finished.
create or replace function pgq._open_batch(
    i_batch_id bigint,
    out queue_id int4,
    out consumer_id int4,
    out owner_id int4,
    out last_tick bigint,
    out next_tick bigint
)
language plpgsql
stable
set enable_seqscan = off
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    -- One statement, one snapshot: what is found is still there when it is read.
    select s.sub_queue, s.sub_consumer, s.sub_id, s.sub_last_tick, s.sub_next_tick
    into queue_id, consumer_id, owner_id, last_tick, next_tick
    from pgq.subscription as s
    where s.ctid = pgq._find_batch(i_batch_id) and s.sub_batch = i_batch_id;
end;
$$;
