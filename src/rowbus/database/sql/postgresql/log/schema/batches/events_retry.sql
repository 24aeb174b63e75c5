-- Have several events of an open batch delivered again, each after its own number of seconds, reading the batch once.
-- Locks their places in the retry queue; returns how many were put there. Raises `batch not found`.
create or replace function pgq.events_retry(i_batch_id bigint, i_event_ids bigint[], i_retry_seconds int4[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queued integer;
begin
    insert into pgq.retry_queue (
        ev_retry_after, ev_queue, ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4
    )
    select
        now() + wanted.seconds * interval '1 second',
        b.queue_id, e.ev_id, e.ev_time, null, b.owner_id, coalesce(e.ev_retry, 0) + 1, e.ev_type, e.ev_data,
        e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
    from pgq.get_batch_events(i_batch_id) as e
    join unnest(i_event_ids, i_retry_seconds) as wanted (id, seconds) on wanted.id = e.ev_id
    cross join pgq._open_batch(i_batch_id) as b
    on conflict (ev_owner, ev_id) do nothing;
    get diagnostics v_queued = row_count;
    return v_queued;
end;
$$;
