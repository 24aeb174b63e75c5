-- Read all settings of a log.
-- Locks nothing. Returns a row a setting: name, value as text; no row when there is no such log.
select
    setting.name,
    setting.value
from pgq.queue
left join pgq.queue_option on queue.queue_id = queue_option.qo_queue
cross join lateral (
    values
    ('ticker_max_count', queue.queue_ticker_max_count::text),
    ('ticker_max_lag', queue.queue_ticker_max_lag::text),
    ('ticker_idle_period', queue.queue_ticker_idle_period::text),
    ('ticker_paused', queue.queue_ticker_paused::text),
    ('rotation_period', queue.queue_rotation_period::text),
    ('external_ticker', queue.queue_external_ticker::text),
    ('tick_period', queue_option.qo_tick_period::text),
    ('max_retries', queue_option.qo_max_retries::text),
    ('ordered_ticks', queue_option.qo_ordered_ticks::text)
) as setting (name, value)
where queue.queue_name = :'log'::text
