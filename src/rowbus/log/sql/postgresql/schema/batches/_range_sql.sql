-- Write the query for the events of the transactions that the later of two ticks sees and the earlier one does not.
-- It looks an old transaction that was open at the earlier tick and ended by the later one up by its id: so an old open
-- transaction does not make every batch read all that was written since. Comparisons come before the functions, which
-- cost more: nearly no event needs these. The snapshots are in the text,
-- so it stays valid however the ticks change. An event to be retried is its owner's alone (NULL: not retried).
-- The text is executed with any search path, also by functions that run with their owner's rights: it is qualified
-- throughout. Locks nothing; returns the text, ordered by event, NULL if a tick is not there.
create or replace function pgq._range_sql(
    i_queue_id int4, i_from_tick bigint, i_to_tick bigint, i_owner_id int4
)
returns text
language plpgsql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_from pg_catalog.txid_snapshot;
    v_to pg_catalog.txid_snapshot;
    v_low bigint;
    v_late bigint[] := '{}';
    v_late_part text := '';
    v_xid bigint;
    v_columns constant text := 'select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,'
        ' ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_owner text := 'ev.ev_owner is null';
begin
    select f.tick_snapshot, t.tick_snapshot
    into v_from, v_to
    from pgq.tick as f
    join pgq.tick as t on t.tick_queue = f.tick_queue
    where f.tick_queue = i_queue_id and f.tick_id = i_from_tick and t.tick_id = i_to_tick;
    if not found then
        return null;
    end if;

    v_low := pg_catalog.txid_snapshot_xmax(v_from);
    if pg_catalog.txid_snapshot_xmin(v_from) < v_low then
        for v_xid in
            select x from pg_catalog.txid_snapshot_xip(v_from) as x
            except all
            select x from pg_catalog.txid_snapshot_xip(v_to) as x
            order by 1 desc
        loop
            if v_low - 100 <= v_xid then -- near the others: one range is cheaper
                v_low := v_xid;
            else
                v_late := v_late || v_xid;
            end if;
        end loop;
    end if;

    if i_owner_id is not null then
        v_owner := pg_catalog.format('(ev.ev_owner is null or ev.ev_owner operator(pg_catalog.=) %s)', i_owner_id);
    end if;
    if v_late <> '{}' then
        v_late_part := pg_catalog.format(' union all %s from %%1$s as ev where ev.ev_txid operator(pg_catalog.=) any(%L::bigint[]) and %s',
            v_columns, v_late, v_owner);
    end if;
    return (
        select pg_catalog.string_agg(
            pg_catalog.format(
                v_columns || ' from %1$s as ev'
                ' where ev.ev_txid operator(pg_catalog.>=) %2$s and ev.ev_txid operator(pg_catalog.<=) %3$s'
                ' and (ev.ev_txid operator(pg_catalog.<) %7$s'
                ' or pg_catalog.txid_visible_in_snapshot(ev.ev_txid, %4$L::pg_catalog.txid_snapshot))'
                ' and (ev.ev_txid operator(pg_catalog.>=) %8$s'
                ' or not pg_catalog.txid_visible_in_snapshot(ev.ev_txid, %5$L::pg_catalog.txid_snapshot)) and %6$s'
                || v_late_part,
                pgq.quote_fqname(t.name), v_low, pg_catalog.txid_snapshot_xmax(v_to), v_to, v_from, v_owner,
                pg_catalog.txid_snapshot_xmin(v_to), pg_catalog.txid_snapshot_xmax(v_from)
            ),
            ' union all '
        ) || ' order by 1'
        from pgq._range_tables(i_queue_id, i_from_tick, i_to_tick) as t (name)
    );
end;
$$;
