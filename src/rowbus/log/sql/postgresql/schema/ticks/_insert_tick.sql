-- Write a tick of a queue with the snapshot of now, and notify the queue's channel of its id. The caller holds the
-- queue's lock since an earlier statement, so that snapshots never go backwards from the tick before it; if one did all
-- the same, that is an error, unless the server's own counter went back. Returns the tick's id.
create or replace function pgq._insert_tick(
    i_queue pgq.queue, i_before pgq.tick, i_id bigint, i_time timestamptz, i_position bigint
)
returns bigint
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_snapshot txid_snapshot;
begin
    insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)
    values (i_queue.queue_id, i_id, i_time, i_position)
    returning tick_snapshot into v_snapshot;
    if txid_snapshot_xmin(v_snapshot) < txid_snapshot_xmin(i_before.tick_snapshot)
        and txid_snapshot_xmax(v_snapshot) >= txid_snapshot_xmax(i_before.tick_snapshot)
    then
        raise exception 'Invalid PgQ state: tick % of queue % would go back from snapshot % to %',
            i_id, i_queue.queue_name, i_before.tick_snapshot, v_snapshot;
    end if;
    perform pg_notify(pgq.notify_channel(i_queue.queue_name), i_id::text);
    return i_id;
end
$$;
revoke execute on function pgq._insert_tick(pgq.queue, pgq.tick, bigint, timestamptz, bigint) from public;
