-- Give a sign of life for a subconsumer that works on a long batch, so that no other takes it over; call it in a
-- transaction of its own, more often than the others' `i_dead_interval`.
-- Locks the subconsumer's row until the transaction ends, waiting for a session that just takes its batch over.
-- Returns 1; or 0 if it is not registered (any more): another subconsumer may have its batch.
create or replace function pgq_coop.touch_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.subscription as s
    set sub_active = clock_timestamp()
    from pgq.subscription as m, pgq.queue as q, pgq.consumer as main, pgq.consumer as own
    where q.queue_name = i_queue_name
        and main.co_name = i_consumer_name
        and own.co_name = i_consumer_name || '.' || i_subconsumer_name
        and m.sub_queue = q.queue_id and m.sub_consumer = main.co_id
        and s.sub_queue = q.queue_id and s.sub_consumer = own.co_id and s.sub_id = m.sub_id;
    return found::int4;
end;
$$;
