-- Write a tick of a queue with the snapshot of now, and notify the queue's channel of its id. The caller holds the
-- queue's lock since an earlier statement, so that snapshots never go backwards; if one did all the same, that is an
-- error, unless the server's own counter went back, of which the caller has warned. Returns the tick's id.
create or replace function pgq._insert_tick(i_queue pgq.queue, i_last pgq.tick, i_position bigint)
returns bigint
language plpgsql
as $$
declare
    v_tick pgq.tick;
begin
    insert into pgq.tick (tick_queue, tick_id, tick_event_seq)
    values (i_queue.queue_id, nextval(i_queue.queue_tick_seq::regclass), i_position)
    returning * into v_tick;
    if txid_snapshot_xmin(v_tick.tick_snapshot) < txid_snapshot_xmin(i_last.tick_snapshot)
        and txid_snapshot_xmax(v_tick.tick_snapshot) >= txid_snapshot_xmax(i_last.tick_snapshot)
    then
        raise exception 'Invalid PgQ state: tick % of queue % would go back from snapshot % to %',
            v_tick.tick_id, i_queue.queue_name, i_last.tick_snapshot, v_tick.tick_snapshot;
    end if;
    perform pg_notify(pgq.notify_channel(i_queue.queue_name), v_tick.tick_id::text);
    return v_tick.tick_id;
end
$$;
