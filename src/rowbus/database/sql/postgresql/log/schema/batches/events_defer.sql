-- Have several events of an open batch delivered again without counting a retry: each after its own number of seconds,
-- in the order of the arrays, and behind those of events_retry() that are due in the same second. The events' transactions
-- (ev_txid) are given too, so that the index finds them in a batch of any size.
-- Locks their places in the retry queue; returns how many were put there. Raises `batch not found`.
create or replace function pgq.events_defer(
    i_batch_id bigint, i_event_ids bigint[], i_txids bigint[], i_retry_seconds int4[]
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_deferred integer;
begin
    execute
        'insert into pgq.retry_queue ('
        '    ev_retry_after, ev_queue, ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,'
        '    ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        ') '
        'select now() + make_interval(secs => wanted.seconds + 0.000001 * wanted.place),'
        '    b.queue_id, e.ev_id, e.ev_time, null, b.owner_id, e.ev_retry, e.ev_type, e.ev_data,'
        '    e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4 '
        'from (' || pgq.batch_event_sql(i_batch_id) || ') as e '
        'join unnest($2, $4) with ordinality as wanted (id, seconds, place) on wanted.id = e.ev_id '
        'cross join pgq._open_batch($1) as b '
        'where e.ev_txid = any($3) '
        'on conflict (ev_owner, ev_id) do nothing'
    using i_batch_id, i_event_ids, i_txids, i_retry_seconds;
    get diagnostics v_deferred = row_count;
    return v_deferred;
end;
$$;
