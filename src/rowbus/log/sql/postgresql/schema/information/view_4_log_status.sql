-- Show for each queue the age of its last tick, waiting events, the lag of the slowest consumer, and its size.
-- Locks nothing.
create or replace view pgq.log_status as
select
    q.queue_name,
    ticker.last_tick_id,
    ticker.last_tick_time,
    ticker.ticker_lag,
    ticker.new_events,
    consumers.number as consumers,
    consumers.max_lag,
    consumers.oldest_batch,
    coalesce(consumers.retry_events, 0)::bigint as retry_events,
    coalesce(consumers.dead_letters, 0)::bigint as dead_letters,
    (
        select sum(pg_total_relation_size(to_regclass(format('%s_%s', q.queue_data_pfx, place))))
        from generate_series(0, q.queue_ntables - 1) as place
    )::bigint as total_bytes,
    q.queue_ticker_paused as ticker_paused,
    q.queue_external_ticker as external_ticker
from pgq.queue as q
inner join pgq.ticker_status as ticker on q.queue_name = ticker.queue_name
left join lateral (
    select
        count(*) as number,
        max(status.lag) as max_lag,
        max(status.batch_age) as oldest_batch,
        -- Sub-consumers share what waits to be retried with their main consumer.
        (
            select count(*)
            from pgq.retry_queue as r
            where r.ev_queue = q.queue_id
        ) as retry_events,
        sum(status.dead_letters) as dead_letters
    from pgq.consumer_status as status
    where status.queue_name = q.queue_name
) as consumers on true;
