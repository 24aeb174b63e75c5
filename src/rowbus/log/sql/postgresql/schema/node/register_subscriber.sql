-- Let another node read from this one: register its worker, at a tick or at the global watermark, and the consumer that
-- holds back what that node and those below it have not completed.
-- Locks the names of both consumers until the transaction ends.
-- Returns 200 and the global watermark; 401 if this is a leaf, 404 for an unknown queue.
create or replace function pgq_node.register_subscriber(
    in i_queue_name text,
    in i_remote_node_name text,
    in i_remote_worker_name text,
    in i_custom_tick_id int8,
    out ret_code int4,
    out ret_note text,
    out global_watermark bigint
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    type_now text := (select n.node_type from pgq_node.node_info as n where n.queue_name = i_queue_name);
    watermark_name text := '.' || i_remote_node_name || '.watermark';
begin
    if type_now is null then
        ret_code := 404;
        ret_note := 'Unknown queue: ' || i_queue_name;
        return;
    end if;
    if type_now = 'leaf' then
        ret_code := 401;
        ret_note := 'Cannot subscribe to ' || type_now || ' node';
        return;
    end if;
    global_watermark := pgq_node._consumer_position(i_queue_name, '.global_watermark');
    perform pgq.register_consumer_at(i_queue_name, watermark_name, global_watermark);
    perform pgq.register_consumer_at(
        i_queue_name, i_remote_worker_name, coalesce(i_custom_tick_id, global_watermark)
    );
    insert into pgq_node.subscriber_info (queue_name, subscriber_node, worker_name, watermark_name)
    values (i_queue_name, i_remote_node_name, i_remote_worker_name, watermark_name);
    ret_code := 200;
    ret_note := 'Subscriber registered: ' || i_remote_node_name;
end;
$$;
