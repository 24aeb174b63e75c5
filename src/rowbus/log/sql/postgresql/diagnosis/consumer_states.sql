-- Read the state of consumers: of all logs, or of one.
-- Locks nothing. Returns a row a consumer, in the order of `ConsumerState` in log/diagnosis.py.
select
    status.queue_name,
    status.consumer_name,
    status.last_tick_id,
    status.lag,
    status.pending_events,
    status.last_seen,
    status.batch_id,
    status.batch_tick_id,
    status.batch_age,
    status.retry_events,
    status.dead_letters
from pgq.consumer_status as status
where :'log'::text is null or status.queue_name = :'log'::text
order by status.queue_name, status.consumer_name
