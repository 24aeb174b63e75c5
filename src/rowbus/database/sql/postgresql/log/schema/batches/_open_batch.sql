-- Find the subscription that holds a batch, wherever its live version is (see _subscription_tail).
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
set enable_seqscan = off -- see _subscription_tail
as $$
declare
    tail pg_catalog.tid := pgq._subscription_tail();
begin
    select s.sub_queue, s.sub_consumer, s.sub_id, s.sub_last_tick, s.sub_next_tick
    into queue_id, consumer_id, owner_id, last_tick, next_tick
    from pgq.subscription as s
    where s.ctid >= tail and s.sub_batch = i_batch_id;
    if not found then
        select s.sub_queue, s.sub_consumer, s.sub_id, s.sub_last_tick, s.sub_next_tick
        into queue_id, consumer_id, owner_id, last_tick, next_tick
        from pgq.subscription as s
        where s.ctid >= '(0,0)' and s.sub_batch = i_batch_id;
    end if;
end;
$$;
