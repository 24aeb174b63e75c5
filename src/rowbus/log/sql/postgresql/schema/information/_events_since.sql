-- Count the events committed by now that a tick did not see: those for all consumers and those retried for one owner.
-- Reads these events, so the cost grows with their number. Locks nothing; returns how many, and the time of the oldest.
create or replace function pgq._events_since(
    i_queue_id int4, i_tick bigint, i_owner_id int4, out number bigint, out oldest timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_tick pgq.tick;
    v_prefix text;
begin
    select t.* into v_tick from pgq.tick as t where t.tick_queue = i_queue_id and t.tick_id = i_tick;
    select q.queue_data_pfx into v_prefix from pgq.queue as q where q.queue_id = i_queue_id;
    if v_tick is null then
        return;
    end if;
    execute format(
        'select count(*), min(ev_time) from %s where ev_txid >= $1 and not txid_visible_in_snapshot(ev_txid, $2)'
        ' and (ev_owner is null or ev_owner = $3)',
        pgq._event_table(v_prefix)
    )
    into number, oldest
    using txid_snapshot_xmin(v_tick.tick_snapshot), v_tick.tick_snapshot, i_owner_id;
end;
$$;
