-- Describe the consumers of a queue; see get_consumer_info(text, text). Locks nothing; returns a row a subscription.
create or replace function pgq.get_consumer_info(
    i_queue_name text,
    out queue_name text,
    out consumer_name text,
    out lag interval,
    out last_seen interval,
    out last_tick bigint,
    out current_batch bigint,
    out next_tick bigint,
    out pending_events bigint
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return query select i.* from pgq.get_consumer_info(i_queue_name, null) as i;
end;
$$;
