-- List the logs that a ticker of ours is to tick: those that are neither paused nor ticked from elsewhere.
-- Locks nothing. Returns id and name.
select
    q.queue_id,
    q.queue_name
from pgq.queue as q
where not q.queue_external_ticker and not q.queue_ticker_paused
order by q.queue_name
