-- Make this database a node of a queue; its location must be registered before.
-- A root makes the queue if there is none. A branch makes it, too, as a copy: only its worker writes events and ticks, with
-- the ids of the root, beginning behind the global watermark. A leaf has no queue.
-- Locks the queue's row until the transaction ends. Returns 200, or 401 for arguments that do not fit the type.
create or replace function pgq_node.create_node(
    in i_queue_name text,
    in i_node_type text,
    in i_node_name text,
    in i_worker_name text,
    in i_provider_name text,
    in i_global_watermark bigint,
    in i_combined_queue text,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    provider text := i_provider_name;
    position bigint := i_global_watermark;
begin
    ret_code := 401;
    ret_note := pgq_node._refuse_node(
        i_queue_name, i_node_type, i_provider_name, i_global_watermark, i_combined_queue
    );
    if ret_note is not null then
        return;
    end if;
    if i_node_type = 'root' then
        perform pgq.create_queue(i_queue_name);
        perform pgq.register_consumer(i_queue_name, '.global_watermark');
        provider := i_node_name;
        position := pgq_node._newest_tick(i_queue_name);
    elsif i_node_type = 'branch' then
        perform pgq_node._create_copy(i_queue_name, i_global_watermark);
    end if;
    insert into pgq_node.node_info (queue_name, node_type, node_name, worker_name, combined_queue)
    values (i_queue_name, i_node_type, i_node_name, i_worker_name, i_combined_queue);
    insert into pgq_node.local_state (queue_name, consumer_name, provider_node, last_tick_id)
    values (i_queue_name, i_worker_name, provider, position);
    ret_code := 200;
    ret_note := format(
        'Node "%s" initialized for queue "%s" with type "%s"', i_node_name, i_queue_name, i_node_type
    );
end;
$$;
