-- Find the logs that want a tick, now or soon: something came, a transaction of before the last tick has ended, or it
-- has been quiet long enough. pgq.ticker decides by the same rules whether to tick; this query saves calls to it.
-- Logs in `except` are left out; `only` is one to look at alone, or NULL. Locks nothing, but waits while
-- another session drops a log. Returns id, name, tick period, whether the sequence moved, and the seconds until a tick
-- is due (0 or less: now); one row a log.
select
    w.queue_id,
    w.queue_name,
    extract(epoch from w.period)::float8 as period,
    w.moved,
    extract(epoch from w.wait)::float8 as wait
from pgq._tick_wish as w
where
    w.is_ticked
    and w.queue_id <> all(:'except'::integer[])
    and (:'only'::integer is null or w.queue_id = :'only'::integer)
    and (w.moved or w.ended or w.wait <= interval '0')
