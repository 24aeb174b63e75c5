-- List what a consumer's retry queue holds; a consumer may see its own, though not the whole retry queue.
-- Locks nothing; returns the seconds until each event is due (0 or less: overdue), then the event's columns.
create or replace function pgq.waiting_retries(i_queue_name text, i_consumer_name text)
returns table (
    seconds int4, ev_id bigint, ev_time timestamptz, ev_txid bigint, ev_retry int4,
    ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
language sql
stable
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
    select
        ceil(extract(epoch from r.ev_retry_after - now()))::int4,
        r.ev_id, r.ev_time, r.ev_txid, r.ev_retry, r.ev_type, r.ev_data,
        r.ev_extra1, r.ev_extra2, r.ev_extra3, r.ev_extra4
    from pgq.queue as q
    inner join pgq.subscription as s on q.queue_id = s.sub_queue
    inner join pgq.consumer as c on s.sub_consumer = c.co_id
    inner join pgq.retry_queue as r on q.queue_id = r.ev_queue and s.sub_id = r.ev_owner
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name
$$;
