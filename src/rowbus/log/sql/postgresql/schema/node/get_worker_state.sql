-- Say what the worker of this database's node needs to know: its state as a consumer, and the queue's watermarks.
-- Locks nothing. Returns 100; or 404 for an unknown queue, worker, provider or combined queue, with what is known up to there.
create or replace function pgq_node.get_worker_state(
    in i_queue_name text,
    out ret_code int4,
    out ret_note text,
    out node_type text,
    out node_name text,
    out completed_tick int8,
    out provider_node text,
    out provider_location text,
    out paused boolean,
    out uptodate boolean,
    out cur_error text,
    out worker_name text,
    out global_watermark int8,
    out local_watermark int8,
    out local_queue_top int8,
    out combined_queue text,
    out combined_type text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select n.worker_name, n.combined_queue
    into worker_name, combined_queue
    from pgq_node.node_info as n
    where n.queue_name = i_queue_name;
    select
        c.ret_code, c.ret_note, c.node_type, c.node_name, c.completed_tick, c.provider_node, c.provider_location,
        c.paused, c.uptodate, c.cur_error
    into
        ret_code, ret_note, node_type, node_name, completed_tick, provider_node, provider_location,
        paused, uptodate, cur_error
    from pgq_node.get_consumer_state(i_queue_name, worker_name) as c;
    if ret_code <> 100 then
        return;
    end if;
    if combined_queue is not null then
        select c.node_type
        into combined_type
        from pgq_node.node_info as n
        join pgq_node.node_info as c on c.queue_name = n.combined_queue
        where n.queue_name = i_queue_name;
        if combined_type is null then
            ret_code := 404;
            ret_note := 'Combinde queue node not found: ' || combined_queue;
            return;
        end if;
    end if;
    if node_type = 'leaf' then
        local_watermark := completed_tick;
    else
        global_watermark := pgq_node._consumer_position(i_queue_name, '.global_watermark');
        local_watermark := pgq_node._local_watermark(i_queue_name);
        local_queue_top := pgq_node._newest_tick(i_queue_name);
    end if;
end;
$$;
