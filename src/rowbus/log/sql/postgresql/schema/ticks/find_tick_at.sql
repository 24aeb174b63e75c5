-- Return the id of a queue's newest tick not after a time; NULL if there is none. Locks nothing.
create or replace function pgq.find_tick_at(i_queue_name text, i_time timestamptz)
returns bigint
language sql stable security definer set search_path = pg_catalog, pgq, pg_temp
as $$
    select t.tick_id
    from pgq.queue as q
    inner join pgq.tick as t on t.tick_queue = q.queue_id
    where q.queue_name = i_queue_name and t.tick_time <= i_time
    order by t.tick_id desc
    limit 1
$$;
