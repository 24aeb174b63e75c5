-- Move the global watermark, the last tick that all nodes have completed: what is behind it may be rotated away. The root
-- tells the others, by an event; NULL there stands for the root's local watermark. A leaf has none.
-- Locks the watermark's subscription until the transaction ends.
-- Returns 200, 100 on a leaf, 404 for an unknown queue, 500 for NULL on a branch.
create or replace function pgq_node.set_global_watermark(
    in i_queue_name text,
    in i_watermark bigint,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    node pgq_node.node_info;
    watermark bigint := i_watermark;
begin
    select n.* into node from pgq_node.node_info as n where n.queue_name = i_queue_name;
    if not found then
        ret_code := 404;
        ret_note := 'Queue' || i_queue_name || ' not found';
        return;
    elsif node.node_type = 'leaf' then
        ret_code := 100;
        ret_note := 'Ignoring global watermark in leaf';
        return;
    elsif node.node_type = 'root' then
        watermark := pgq_node._publish_watermark(node, i_watermark);
    elsif i_watermark is null then
        ret_code := 500;
        ret_note := 'bad usage: wm=null on branch node';
        return;
    elsif not exists (
        select
        from pgq.tick as t
        join pgq.queue as q on q.queue_id = t.tick_queue
        where q.queue_name = i_queue_name and t.tick_id = i_watermark
    ) then
        ret_code := 200;
        ret_note := 'Skipping global watermark update to ' || i_watermark;
        return;
    else
        perform pgq.register_consumer_at(i_queue_name, '.global_watermark', i_watermark);
    end if;
    ret_code := 200;
    ret_note := 'Global watermark set to ' || watermark;
end;
$$;

create or replace function pgq_node._publish_watermark(i_node pgq_node.node_info, i_watermark bigint)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    watermark bigint := coalesce(i_watermark, pgq_node._local_watermark(i_node.queue_name));
begin
    if watermark is null then
        raise exception 'local_watermark=NULL from get_node_info()?';
    end if;
    perform pgq.register_consumer_at(i_node.queue_name, '.global_watermark', watermark);
    perform pgq.insert_event(
        i_node.queue_name, 'pgq.global-watermark', watermark::text, i_node.queue_name, null, null, null
    );
    update pgq_node.local_state as s
    set last_tick_id = watermark
    where s.queue_name = i_node.queue_name and s.consumer_name = i_node.worker_name;
    return watermark;
end;
$$;
