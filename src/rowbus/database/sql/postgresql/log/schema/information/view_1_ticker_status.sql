-- Say for each queue how old its last tick is, whether events wait for the next one, and whether that is late: longer than
-- twice what is to be expected and 10 seconds. Locks nothing.
create or replace view pgq.ticker_status as
select
    q.queue_name,
    top.tick_id as last_tick_id,
    top.tick_time as last_tick_time,
    now() - top.tick_time as ticker_lag,
    waiting.number as new_events,
    waiting.oldest as oldest_new_event,
    wish.expected,
    not q.queue_external_ticker
    and not q.queue_ticker_paused
    and now() - top.tick_time > 2 * wish.expected + interval '10 seconds'
    and (waiting.number = 0 or now() - waiting.oldest > 2 * wish.expected + interval '10 seconds') as late
from pgq.queue as q
left join lateral (
    select
        t.tick_id,
        t.tick_time
    from pgq.tick as t
    where t.tick_queue = q.queue_id
    order by t.tick_id desc
    limit 1
) as top on true
left join lateral pgq._events_since(q.queue_id, top.tick_id, null) as waiting on true
left join lateral (
    select
        case
            when waiting.number > 0 then pgq._tick_period(q)
            else q.queue_ticker_idle_period
        end as expected
) as wish on true;
