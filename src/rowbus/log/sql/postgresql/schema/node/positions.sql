-- Where the ticks and the consumers of a queue are, as several functions of pgq_node ask it.
-- _consumer_position: the last tick that a consumer finished. _newest_tick: the newest one of a queue.
-- _local_watermark: the last tick that all consumers here finished, but for the global watermark itself.
-- _is_provider: whether this database's worker reads from that node. They lock nothing; NULL if there is none.
create or replace function pgq_node._consumer_position(i_queue_name text, i_consumer_name text)
returns bigint
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select s.sub_last_tick
    from pgq.subscription as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name
$$;

create or replace function pgq_node._newest_tick(i_queue_name text)
returns bigint
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select t.tick_id
    from pgq.tick as t
    where t.tick_queue = (select q.queue_id from pgq.queue as q where q.queue_name = i_queue_name)
    order by t.tick_queue desc, t.tick_id desc
    limit 1
$$;

create or replace function pgq_node._local_watermark(i_queue_name text)
returns bigint
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(min(s.sub_last_tick), pgq_node._newest_tick(i_queue_name))
    from pgq.subscription as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name and c.co_name <> '.global_watermark'
$$;

create or replace function pgq_node._is_provider(i_queue_name text, i_node_name text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select
        from pgq_node.node_info as n
        join pgq_node.local_state as s on s.queue_name = n.queue_name and s.consumer_name = n.worker_name
        where n.queue_name = i_queue_name and s.provider_node = i_node_name
    )
$$;
