-- Have all events of an open batch delivered again, after so many seconds, but for those that wait already.
-- Locks their places in the retry queue; returns how many were put there.
create or replace function pgq.batch_retry(i_batch_id bigint, i_retry_seconds integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    b record;
    v_queued integer;
begin
    select o.* into b from pgq._open_batch(i_batch_id) as o;
    if b.queue_id is null then
        raise exception 'batch_retry: batch % not found', i_batch_id;
    end if;
    insert into pgq.retry_queue (
        ev_retry_after, ev_queue, ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4
    )
    select
        now() + i_retry_seconds * interval '1 second',
        b.queue_id, e.ev_id, e.ev_time, null, b.owner_id, coalesce(e.ev_retry, 0) + 1, e.ev_type, e.ev_data,
        e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
    from pgq.get_batch_events(i_batch_id) as e
    on conflict (ev_owner, ev_id) do nothing;
    get diagnostics v_queued = row_count;
    return v_queued;
end;
$$;
