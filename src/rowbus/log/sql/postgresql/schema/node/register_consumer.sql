-- Register a consumer that reads a queue on another node and writes here, behind a tick; or move one there.
-- Locks its state until the transaction ends. Returns 200, 201 if it was registered already, 404 for an unknown queue.
create or replace function pgq_node.register_consumer(
    in i_queue_name text,
    in i_consumer_name text,
    in i_provider_node text,
    in i_custom_tick_id int8,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from pgq_node.node_info as n where n.queue_name = i_queue_name) then
        ret_code := 404;
        ret_note := 'Unknown queue: ' || i_queue_name;
        return;
    end if;
    update pgq_node.local_state as s
    set provider_node = i_provider_node, last_tick_id = i_custom_tick_id, uptodate = false
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name;
    if found then
        ret_code := 201;
        ret_note := 'Consumer already registered: ' || i_queue_name || '/' || i_consumer_name;
        return;
    end if;
    insert into pgq_node.local_state (queue_name, consumer_name, provider_node, last_tick_id)
    values (i_queue_name, i_consumer_name, i_provider_node, i_custom_tick_id);
    ret_code := 200;
    ret_note := 'Consumer ' || i_consumer_name || ' registered on queue ' || i_queue_name;
end;
$$;
