-- List the consumers whose position keeps a queue's previous table, each with its last finished tick.
-- Locks nothing. Returns one line of text, the furthest behind first; NULL if it is none.
create or replace function pgq._rotation_holders(i_queue int4, i_step2 bigint)
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp
as $$
    select string_agg(
        format('consumer %s at tick %s, last seen %s', c.co_name, s.sub_last_tick, s.sub_active::timestamptz(0)),
        ', ' order by s.sub_last_tick, c.co_name
    )
    from pgq.subscription as s
    inner join pgq.consumer as c on c.co_id = s.sub_consumer
    inner join pgq.tick as t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
    where s.sub_queue = i_queue and txid_snapshot_xmin(t.tick_snapshot) <= i_step2
$$;
revoke execute on function pgq._rotation_holders(int4, bigint) from public;
grant execute on function pgq._rotation_holders(int4, bigint) to pgq_admin;
