-- Find a consumer's subscription, wherever its live version is (see _subscription_tail).
-- Locks nothing; returns the version's place and its columns, all NULL if the consumer is not subscribed.
create or replace function pgq._find_subscription(
    i_queue_id int4,
    i_consumer_id int4,
    out place tid,
    out last_tick bigint,
    out batch bigint,
    out next_tick bigint
)
language plpgsql
stable
set enable_seqscan = off
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    guess pg_catalog.tid := pgq._subscription_place();
    tail pg_catalog.tid;
begin
    select s.ctid, s.sub_last_tick, s.sub_batch, s.sub_next_tick
    into place, last_tick, batch, next_tick
    from pgq.subscription as s
    where s.ctid = guess and s.sub_queue + 0 = i_queue_id and s.sub_consumer + 0 = i_consumer_id; -- the sums keep
    if found then                                                          -- the planner off the primary key
        return;
    end if;
    tail := pgq._subscription_tail();
    select s.ctid, s.sub_last_tick, s.sub_batch, s.sub_next_tick
    into place, last_tick, batch, next_tick
    from pgq.subscription as s
    where s.ctid >= tail and s.sub_queue + 0 = i_queue_id and s.sub_consumer + 0 = i_consumer_id;
    if found then
        return;
    end if;
    select s.ctid, s.sub_last_tick, s.sub_batch, s.sub_next_tick
    into place, last_tick, batch, next_tick
    from pgq.subscription as s
    where s.sub_queue = i_queue_id and s.sub_consumer = i_consumer_id;
end;
$$;
revoke execute on function pgq._find_subscription(int4, int4) from public;
