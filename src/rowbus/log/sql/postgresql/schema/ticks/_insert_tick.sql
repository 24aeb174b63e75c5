-- Write a tick of a queue with the current snapshot, and notify the queue's channel of its id. The caller has held the
-- queue's ticker lock since an earlier statement, so a tick's snapshot is never older than that of the tick before it. A
-- snapshot that is older is an error, unless the server's transaction counter itself went back. Returns the tick's id.
-- Every name is qualified, because `set search_path` costs at each call.
create or replace function pgq._insert_tick(
    i_queue pgq.queue, i_before pgq.tick, i_id bigint, i_time timestamptz, i_position bigint
)
returns bigint
language plpgsql
as $$
declare
    v_snapshot pg_catalog.txid_snapshot;
begin
    insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)
    values (i_queue.queue_id, i_id, i_time, i_position)
    returning tick_snapshot into v_snapshot;
    if pg_catalog.txid_snapshot_xmin(v_snapshot)
        operator(pg_catalog.<) pg_catalog.txid_snapshot_xmin(i_before.tick_snapshot)
        and pg_catalog.txid_snapshot_xmax(v_snapshot)
        operator(pg_catalog.>=) pg_catalog.txid_snapshot_xmax(i_before.tick_snapshot)
    then
        raise exception 'Invalid PgQ state: tick % of queue % would go back from snapshot % to %',
            i_id, i_queue.queue_name, i_before.tick_snapshot, v_snapshot;
    end if;
    -- What this transaction appends later comes after the tick: it may read the batch up to the tick, or have a consumer
    -- begin there. But what is copied with a tick from outside is before it.
    if not i_queue.queue_external_ticker
        and pg_catalog.txid_visible_in_snapshot(pg_catalog.txid_current(), v_snapshot)
    then
        perform pgq._follow_own_tick(i_queue.queue_id, i_id);
    end if;
    perform pg_catalog.pg_notify(pgq.notify_channel(i_queue.queue_name), i_id::pg_catalog.text);
    return i_id;
end
$$;
revoke execute on function pgq._insert_tick(pgq.queue, pgq.tick, bigint, timestamptz, bigint) from public;
