-- Find the consumer that a subscription belongs to: for cooperative consumers the main one, whose name all others
-- begin with. Locks nothing; returns its id.
create or replace function pgq._main_consumer(i_owner_id int4)
returns int4
language sql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
    select s.sub_consumer
    from pgq.subscription as s
    inner join pgq.consumer as c on s.sub_consumer = c.co_id
    where s.sub_id = i_owner_id
    order by length(c.co_name)
    limit 1
$$;
revoke execute on function pgq._main_consumer(int4) from public;
