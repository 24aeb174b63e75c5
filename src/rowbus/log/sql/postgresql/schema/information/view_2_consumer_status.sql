-- Show for each consumer how many committed events it has not finished (counted, not estimated), and its lag in time;
-- its open batch and since when; its retries and its dead letters.
-- A subconsumer has no position of its own. Locks nothing.
create or replace view pgq.consumer_status as
select
    q.queue_name,
    c.co_name as consumer_name,
    s.sub_last_tick as last_tick_id,
    case when pending.number = 0 then interval '0' else now() - f.tick_time end as lag,
    pending.number as pending_events,
    now() - s.sub_active as last_seen,
    s.sub_batch as batch_id,
    s.sub_next_tick as batch_tick_id,
    case when s.sub_batch is not null then now() - s.sub_active end as batch_age,
    (
        select count(*)
        from pgq.retry_queue as r
        where r.ev_owner = s.sub_id
    ) as retry_events,
    (
        select count(*)
        from pgq.dead_letter as d
        where d.dl_queue = s.sub_queue and d.dl_consumer = s.sub_consumer
    ) as dead_letters
from pgq.subscription as s
inner join pgq.queue as q on s.sub_queue = q.queue_id
inner join pgq.consumer as c on s.sub_consumer = c.co_id
left join pgq.tick as f on s.sub_queue = f.tick_queue and s.sub_last_tick = f.tick_id
left join lateral pgq._events_since(s.sub_queue, s.sub_last_tick, s.sub_id) as pending on true;
