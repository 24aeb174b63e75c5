-- Describe a consumer of a queue; NULL stands for all consumers, or all queues. `lag` is the age of the last finished
-- tick, `pending_events` how far the event sequence had moved at the newest tick since then.
-- Locks nothing; returns a row a subscription.
create or replace function pgq.get_consumer_info(
    i_queue_name text,
    i_consumer_name text,
    out queue_name text,
    out consumer_name text,
    out lag interval,
    out last_seen interval,
    out last_tick bigint,
    out current_batch bigint,
    out next_tick bigint,
    out pending_events bigint
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return query
    select
        q.queue_name, c.co_name, now() - f.tick_time, now() - s.sub_active, s.sub_last_tick, s.sub_batch, s.sub_next_tick,
        top.tick_event_seq - f.tick_event_seq
    from pgq.subscription as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    left join pgq.tick as f on f.tick_queue = s.sub_queue and f.tick_id = s.sub_last_tick
    left join lateral (
        select t.tick_event_seq
        from pgq.tick as t
        where t.tick_queue = s.sub_queue
        order by t.tick_id desc
        limit 1
    ) as top on true
    where (i_queue_name is null or q.queue_name = i_queue_name) and (i_consumer_name is null or c.co_name = i_consumer_name)
    order by q.queue_name, c.co_name;
end;
$$;
