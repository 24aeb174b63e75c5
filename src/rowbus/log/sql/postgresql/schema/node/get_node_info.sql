-- Describe this database's node of a queue, for the tools that administrate all of them.
-- Locks nothing. Returns 100, or 404 for a queue of which this database is no node; `target_for` are the queues whose
-- leaves here are merged into this one.
create or replace function pgq_node.get_node_info(
    in i_queue_name text,
    out ret_code int4,
    out ret_note text,
    out node_type text,
    out node_name text,
    out global_watermark int8,
    out local_watermark int8,
    out provider_node text,
    out provider_location text,
    out combined_queue text,
    out combined_type text,
    out worker_name text,
    out worker_paused boolean,
    out worker_uptodate boolean,
    out worker_last_tick int8,
    out node_attrs text,
    out target_for text[]
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select
        100, 'Ok', n.node_type, n.node_name, s.provider_node, l.node_location, c.queue_name, c.node_type,
        n.worker_name, s.paused, s.uptodate, s.last_tick_id, n.node_attrs
    into
        ret_code, ret_note, node_type, node_name, provider_node, provider_location, combined_queue, combined_type,
        worker_name, worker_paused, worker_uptodate, worker_last_tick, node_attrs
    from pgq_node.node_info as n
    left join pgq_node.node_info as c on c.queue_name = n.combined_queue
    left join pgq_node.local_state as s on s.queue_name = n.queue_name and s.consumer_name = n.worker_name
    left join pgq_node.node_location as l on l.queue_name = s.queue_name and l.node_name = s.provider_node
    where n.queue_name = i_queue_name;
    if not found then
        ret_code := 404;
        ret_note := 'Unknown queue: ' || i_queue_name;
        return;
    end if;
    if node_type = 'leaf' then
        local_watermark := worker_last_tick;
    else
        global_watermark := pgq_node._consumer_position(i_queue_name, '.global_watermark');
        local_watermark := pgq_node._local_watermark(i_queue_name);
    end if;
    if node_type = 'root' then -- its worker reads its own queue, and is never behind
        worker_last_tick := pgq_node._newest_tick(i_queue_name);
    end if;
    target_for := (
        select array_agg(n.queue_name order by n.queue_name)
        from pgq_node.node_info as n
        where n.combined_queue = i_queue_name
    );
end;
$$;
