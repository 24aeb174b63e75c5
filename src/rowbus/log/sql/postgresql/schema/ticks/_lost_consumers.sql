-- List the consumers of a queue whose position is a tick that is gone: they can read nothing any more.
-- Locks nothing. Returns one line of text; NULL if there are none.
create or replace function pgq._lost_consumers(i_queue int4)
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp
as $$
    select string_agg(format('consumer %s at tick %s', c.co_name, s.sub_last_tick), ', ' order by c.co_name)
    from pgq.subscription as s
    inner join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.sub_queue = i_queue
        and s.sub_last_tick is not null
        and not exists (
            select from pgq.tick as t where t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
        )
$$;
revoke execute on function pgq._lost_consumers(int4) from public;
grant execute on function pgq._lost_consumers(int4) to pgq_admin;
