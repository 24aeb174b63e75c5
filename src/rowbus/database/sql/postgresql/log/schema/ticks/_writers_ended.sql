-- Say whether a transaction that may have written into a queue before its last tick has ended after it, so that a tick
-- is due although the queue's sequence did not move. Locks nothing.
--
-- Who writes moves the sequence. The tick that saw it move may not know the writer's id (it may be beyond the tick's
-- snapshot), the one after it does; so whoever began after that second tick need not be asked about. It is looked for
-- among the last 30 ticks: a writer still running after so many waits for a tick of quiet times.
create or replace function pgq._writers_ended(i_last pgq.tick, i_before pgq.tick)
returns boolean
language plpgsql stable
as $$
declare
    v_now txid_snapshot := txid_current_snapshot();
    v_horizon bigint;
begin
    if i_last.tick_event_seq is distinct from i_before.tick_event_seq then
        -- The tick's own id is the first beyond its snapshot, if nobody else has one.
        return
            txid_snapshot_xmax(v_now) > txid_snapshot_xmax(i_last.tick_snapshot) + 1
            or exists(
                select from txid_snapshot_xip(i_last.tick_snapshot) as x where txid_visible_in_snapshot(x, v_now)
            );
    end if;
    if txid_snapshot_xmin(i_last.tick_snapshot) = txid_snapshot_xmax(i_last.tick_snapshot) then
        return false; -- nobody was running
    end if;
    select (array_agg(txid_snapshot_xmax(t.tick_snapshot) order by t.tick_id))[2]
    into v_horizon
    from (
        select r.tick_id, r.tick_snapshot, r.tick_event_seq
        from pgq.tick as r
        where r.tick_queue = i_last.tick_queue
        order by r.tick_id desc
        limit 30
    ) as t
    where t.tick_event_seq = i_last.tick_event_seq;
    return exists(
        select from txid_snapshot_xip(i_last.tick_snapshot) as x
        where x < v_horizon and txid_visible_in_snapshot(x, v_now)
    );
end
$$;
