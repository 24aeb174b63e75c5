-- End a subscription. A subconsumer goes alone; a main consumer takes its subconsumers, the events waiting to be
-- retried and the dead letters with it, and all their names where no other queue knows them.
-- Locks the rows it deletes; returns how many subscriptions ended.
create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_sub pgq.subscription;
    v_members int4[];
    v_batches bigint[];
begin
    select s.*
    into v_sub
    from pgq.queue as q
    join pgq.subscription as s on s.sub_queue = q.queue_id
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = x_queue_name and c.co_name = x_consumer_name
    for update of s, c;
    if not found then
        return 0;
    end if;

    select array_agg(s.sub_consumer), array_agg(s.sub_batch)
    into v_members, v_batches
    from pgq.subscription as s
    where s.sub_id = v_sub.sub_id;
    if cardinality(v_members) > 1 and (v_sub.sub_last_tick is null) = (v_sub.sub_next_tick is null) then
        v_members := array[v_sub.sub_consumer];
        v_batches := array[v_sub.sub_batch];
    else
        delete from pgq.retry_queue as r where r.ev_owner = v_sub.sub_id;
    end if;

    delete from pgq.batch_position as p where p.bp_batch = any(v_batches);
    delete from pgq.dead_letter as d where d.dl_queue = v_sub.sub_queue and d.dl_consumer = any(v_members);
    delete from pgq.subscription as s where s.sub_id = v_sub.sub_id and s.sub_consumer = any(v_members);
    -- A session that registers one of the names elsewhere holds its row: wait, then look with a new snapshot.
    perform from pgq.consumer as c where c.co_id = any(v_members) order by c.co_id for update;
    delete from pgq.consumer as c
    where c.co_id = any(v_members)
        and not exists (select from pgq.subscription as s where s.sub_consumer = c.co_id);
    return cardinality(v_members);
end;
$$;
