-- Read the events of an open batch, ordered by their ids.
-- Locks nothing; returns them all, so a huge batch is better read through get_batch_cursor.
create or replace function pgq.get_batch_events(
    x_batch_id bigint,
    out ev_id bigint,
    out ev_time timestamptz,
    out ev_txid bigint,
    out ev_retry int4,
    out ev_type text,
    out ev_data text,
    out ev_extra1 text,
    out ev_extra2 text,
    out ev_extra3 text,
    out ev_extra4 text
)
returns setof record
language plpgsql
as $$
begin
    return query execute pgq.batch_event_sql(x_batch_id);
end;
$$;
