-- Describe all queues; see get_queue_info(text). Locks nothing; returns a row a queue.
create or replace function pgq.get_queue_info(
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
as $$
begin
    return query select i.* from pgq.get_queue_info(null) as i;
end;
$$;
