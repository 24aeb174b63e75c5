-- Have one event of an open batch delivered again to its consumer, after a time, counting one retry more.
-- Locks the event's place in the retry queue; returns 1, or 0 if it waits there already. Raises `event not found`.
create or replace function pgq.event_retry(x_batch_id bigint, x_event_id bigint, x_retry_time timestamptz)
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
        x_retry_time, b.queue_id, e.ev_id, e.ev_time, null, b.owner_id, coalesce(e.ev_retry, 0) + 1, e.ev_type, e.ev_data,
        e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
    from pgq._batch_event(x_batch_id, x_event_id) as e, pgq._open_batch(x_batch_id) as b
    on conflict (ev_owner, ev_id) do nothing;
    get diagnostics v_queued = row_count;
    if v_queued = 0 and not exists (select from pgq._batch_event(x_batch_id, x_event_id)) then
        raise exception 'event not found';
    end if;
    return v_queued;
end;
$$;
