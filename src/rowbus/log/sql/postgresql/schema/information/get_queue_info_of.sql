-- Describe a queue, or all of them (NULL), by name. `ev_per_sec` is over the last 20 ticks; `ev_new` is how far the event
-- sequence has moved since the last tick, which is not quite the number of new events.
-- Locks nothing; returns a row a queue.
create or replace function pgq.get_queue_info(
    i_queue_name text,
    out queue_name text,
    out queue_ntables integer,
    out queue_cur_table integer,
    out queue_rotation_period interval,
    out queue_switch_time timestamptz,
    out queue_external_ticker boolean,
    out queue_ticker_paused boolean,
    out queue_ticker_max_count integer,
    out queue_ticker_max_lag interval,
    out queue_ticker_idle_period interval,
    out ticker_lag interval,
    out ev_per_sec float8,
    out ev_new bigint,
    out last_tick_id bigint
)
returns setof record
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return query
    select
        q.queue_name, q.queue_ntables, q.queue_cur_table, q.queue_rotation_period, q.queue_switch_time,
        q.queue_external_ticker, q.queue_ticker_paused, q.queue_ticker_max_count, q.queue_ticker_max_lag,
        q.queue_ticker_idle_period,
        now() - top.tick_time,
        (top.tick_event_seq - base.tick_event_seq)
        / nullif(extract(epoch from top.tick_time - base.tick_time)::float8, 0),
        pgq.seq_getval(q.queue_event_seq) - top.tick_event_seq,
        top.tick_id
    from pgq.queue as q
    left join lateral (
        select t.tick_id, t.tick_time, t.tick_event_seq
        from pgq.tick as t
        where t.tick_queue = q.queue_id
        order by t.tick_id desc
        limit 1
    ) as top on true
    left join lateral (
        select t.tick_time, t.tick_event_seq
        from pgq.tick as t
        where t.tick_queue = q.queue_id and t.tick_id between top.tick_id - 20 and top.tick_id - 1
        order by t.tick_id
        limit 1
    ) as base on true
    where i_queue_name is null or q.queue_name = i_queue_name
    order by q.queue_name;
end;
$$;
