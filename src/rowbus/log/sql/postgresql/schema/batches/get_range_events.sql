-- Read the events between two ticks without opening a batch, any number of times and in parallel. With a consumer: the
-- events that it would get, its retries included; without one: the events for all consumers.
-- A rotation meanwhile is an error, never a silent gap.
-- Locks the data tables against TRUNCATE until the transaction ends; returns the events ordered by their ids.
create or replace function pgq.get_range_events(
    i_queue_name text,
    i_from_tick bigint,
    i_to_tick bigint,
    i_consumer_name text default null,
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
stable
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue int4;
    v_sql text;
begin
    v_sql := pgq.range_event_sql(i_queue_name, i_from_tick, i_to_tick, i_consumer_name);
    return query execute v_sql;
    select q.queue_id into v_queue from pgq.queue as q where q.queue_name = i_queue_name;
    -- TRUNCATE does not care for snapshots: this query's own knows the table's old file, the catalog's cache the new
    -- one.
    if exists (
        select
        from pgq._range_tables(v_queue, i_from_tick, i_to_tick) as t (name)
        left join pg_class as c on c.oid = to_regclass(t.name)
        where c.relfilenode is distinct from pg_relation_filenode(t.name::regclass)
    ) then
        raise exception 'tick % of queue % is not retained; the oldest is %',
            i_from_tick, i_queue_name, 'newer than this snapshot'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
end;
$$;
