-- Have what this transaction appends come after a tick that it has written. A snapshot does not name its own transaction:
-- where a younger one has ended already, the tick would count it among those that it has seen.
-- Locks the tick's row, which no other sees yet; returns nothing.
create or replace function pgq._follow_own_tick(i_queue_id int4, i_tick_id bigint)
returns void
language sql volatile set search_path = pg_catalog, pgq, pg_temp
as $$
update pgq.tick as own
set
    tick_snapshot = format(
        '%s:%s:%s',
        least(txid_snapshot_xmin(own.tick_snapshot), txid_current()),
        txid_snapshot_xmax(own.tick_snapshot),
        (
            select string_agg(running.txid::text, ',' order by running.txid)
            from (
                select txid_snapshot_xip(own.tick_snapshot) as txid
                union distinct
                select txid_current() as txid
            ) as running
        )
    )::txid_snapshot
where own.tick_queue = i_queue_id and own.tick_id = i_tick_id
$$;
revoke execute on function pgq._follow_own_tick(int4, bigint) from public;
