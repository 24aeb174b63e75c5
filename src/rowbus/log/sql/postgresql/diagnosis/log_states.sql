-- Read the state of logs: of all, or of one.
-- Locks nothing. Returns a row a log, in the order of `LogState` in log/diagnosis.py.
select
    status.queue_name,
    status.last_tick_id,
    status.last_tick_time,
    status.ticker_lag,
    status.new_events,
    ticker.expected,
    ticker.late,
    status.consumers,
    status.max_lag,
    status.retry_events,
    status.dead_letters,
    status.total_bytes,
    status.ticker_paused,
    status.external_ticker,
    rotation.rotation_period,
    rotation.switched_at,
    rotation.blocked_since,
    rotation.reason,
    rotation.detail,
    now() as seen_at
from pgq.log_status as status
inner join pgq.rotation_status as rotation on status.queue_name = rotation.queue_name
inner join pgq.ticker_status as ticker on status.queue_name = ticker.queue_name
where :'log'::text is null or status.queue_name = :'log'::text
order by status.queue_name
