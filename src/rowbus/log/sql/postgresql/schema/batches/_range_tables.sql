-- Tell which data tables hold the transactions between two ticks: the previous one, the current one, or both.
-- Locks nothing; returns their names, the older one first; nothing if a tick is not there.
create or replace function pgq._range_tables(i_queue_id int4, i_from_tick bigint, i_to_tick bigint)
returns setof text
language plpgsql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_prefix text;
    v_current int4;
    v_previous int4;
    v_only_current boolean;
    v_only_previous boolean;
begin
    select
        q.queue_data_pfx,
        q.queue_cur_table,
        (q.queue_cur_table + q.queue_ntables - 1) % q.queue_ntables,
        pg_catalog.txid_snapshot_xmin(f.tick_snapshot) > q.queue_switch_step2, -- NULL between the steps: both
        pg_catalog.txid_snapshot_xmax(t.tick_snapshot) < q.queue_switch_step1
    into v_prefix, v_current, v_previous, v_only_current, v_only_previous
    from pgq.queue as q
    join pgq.tick as f on f.tick_queue = q.queue_id and f.tick_id = i_from_tick
    join pgq.tick as t on t.tick_queue = q.queue_id and t.tick_id = i_to_tick
    where q.queue_id = i_queue_id;
    if not found then
        return;
    end if;

    if v_only_previous or v_only_current is not true then
        perform pgq._event_table(v_prefix || '_' || v_previous);
        return next v_prefix || '_' || v_previous;
    end if;
    if not v_only_previous then
        perform pgq._event_table(v_prefix || '_' || v_current);
        return next v_prefix || '_' || v_current;
    end if;
end;
$$;
