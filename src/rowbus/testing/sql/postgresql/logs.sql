-- Say how the logs stand: consumers that have not finished the last tick, events after it, events that wait for a retry.
-- Locks nothing; returns one row with three numbers.
select
    (
        select count(*)::integer
        from pgq.get_consumer_info() as consumer
        inner join pgq.get_queue_info() as log on consumer.queue_name = log.queue_name
        where consumer.current_batch is not null or consumer.last_tick < log.last_tick_id
    ) as behind,
    (select coalesce(sum(log.ev_new), 0)::bigint from pgq.get_queue_info() as log) as fresh,
    (select count(*)::integer from pgq.retry_queue) as retries
