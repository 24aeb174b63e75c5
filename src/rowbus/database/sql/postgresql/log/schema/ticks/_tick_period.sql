-- Return how long events of a queue may wait for a tick: the queue's own tick_period, else a ticker_max_lag that somebody
-- has changed, else what the session of a Rowbus ticker says (its setting pgq.tick_period), else ticker_max_lag.
-- `look_for_ticks.sql` has the same rule. Locks nothing.
create or replace function pgq._tick_period(i_queue pgq.queue)
returns interval
language sql stable
as $$
    select coalesce(
        (select o.qo_tick_period from pgq.queue_option as o where o.qo_queue = i_queue.queue_id),
        nullif(i_queue.queue_ticker_max_lag, interval '3 seconds'),
        nullif(pg_catalog.current_setting('pgq.tick_period', true), '')::interval,
        i_queue.queue_ticker_max_lag
    )
$$;
