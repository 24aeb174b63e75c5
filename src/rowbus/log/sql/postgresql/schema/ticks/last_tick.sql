-- Return the id of a queue's newest tick; NULL for an unknown queue. Locks nothing.
create or replace function pgq.last_tick(i_queue_name text)
returns bigint
language sql stable security definer set search_path = pg_catalog, pgq, pg_temp
as $$
    select t.tick_id
    from pgq.queue as q
    inner join pgq.tick as t on t.tick_queue = q.queue_id
    where q.queue_name = i_queue_name
    order by t.tick_id desc
    limit 1
$$;
