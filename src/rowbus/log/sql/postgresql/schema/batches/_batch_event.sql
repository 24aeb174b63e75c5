-- Find one event of an open batch, without reading the others into memory.
-- Locks nothing; returns no row if it is not there, or the batch is not.
create or replace function pgq._batch_event(i_batch_id bigint, i_event_id bigint)
returns table (
    ev_id bigint, ev_time timestamptz, ev_txid bigint, ev_retry int4, ev_type text, ev_data text,
    ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
)
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if (pgq._open_batch(i_batch_id)).queue_id is null then
        return;
    end if;
    return query execute
        'select * from (' || pgq.batch_event_sql(i_batch_id) || ') as event where event.ev_id = $1'
    using i_event_id;
end;
$$;
revoke execute on function pgq._batch_event(bigint, bigint) from public;
