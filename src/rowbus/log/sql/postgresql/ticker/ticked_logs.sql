-- List the logs that our ticker ticks: all but those that are paused or have an external ticker.
-- Locks nothing. Returns id and name.
select
    q.queue_id,
    q.queue_name
from pgq.queue as q
where not q.queue_external_ticker and not q.queue_ticker_paused
order by q.queue_name
