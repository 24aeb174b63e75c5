-- What create_node is made of. _refuse_node locks nothing and returns why a node cannot be created as asked for, NULL if
-- it can. _create_copy makes the queue of a branch and its first tick; it locks the queue's row, and returns nothing.
create or replace function pgq_node._refuse_node(
    i_queue_name text,
    i_node_type text,
    i_provider_name text,
    i_global_watermark bigint,
    i_combined_queue text
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when exists (select from pgq_node.node_info as n where n.queue_name = i_queue_name)
            then 'Node already initialized'
        when i_node_type = 'root' and coalesce(i_provider_name, i_global_watermark::text, i_combined_queue) is not null
            then 'unexpected args for ' || i_node_type
        when i_node_type = 'branch' and i_provider_name is null then 'provider not set for ' || i_node_type
        when i_node_type = 'branch' and i_global_watermark is null
            then 'global watermark not set for ' || i_node_type
        when i_node_type = 'leaf' and i_combined_queue is not null
            and not exists (select from pgq.queue as q where q.queue_name = i_combined_queue)
            then 'non-existing queue on leaf side: ' || i_combined_queue
    end;
end;
$$;

create or replace function pgq_node._create_copy(i_queue_name text, i_global_watermark bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq.create_queue(i_queue_name);
    update pgq.queue as q
    set queue_external_ticker = true, queue_disable_insert = true
    where q.queue_name = i_queue_name;
    if i_global_watermark > 1 then -- creating the queue made tick 1
        perform pgq.ticker(i_queue_name, i_global_watermark, now(), 1);
    end if;
    perform pgq.register_consumer_at(i_queue_name, '.global_watermark', i_global_watermark);
end;
$$;
