-- Show for each queue how old its last tick is, whether events wait for the next one, and whether that is late: older
-- than twice what is expected, plus 10 seconds. Locks nothing.
create or replace view pgq.ticker_status as
select
    q.queue_name,
    wish.last_tick_id,
    wish.last_tick_time,
    now() - wish.last_tick_time as ticker_lag,
    waiting.number as new_events,
    waiting.oldest as oldest_new_event,
    usual.expected,
    wish.is_ticked
    and now() - wish.last_tick_time > 2 * usual.expected + interval '10 seconds'
    and (waiting.number = 0 or now() - waiting.oldest > 2 * usual.expected + interval '10 seconds') as late
from pgq.queue as q
inner join pgq._tick_wish as wish on q.queue_id = wish.queue_id
left join lateral pgq._events_since(q.queue_id, wish.last_tick_id, null) as waiting on true
left join lateral (
    select
        case
            when waiting.number > 0 then wish.period
            else q.queue_ticker_idle_period
        end as expected
) as usual on true;
