-- Forget a consumer that writes here.
-- Locks its state until the transaction ends. Returns 200, also if there was none; 404 for an unknown queue.
create or replace function pgq_node.unregister_consumer(
    in i_queue_name text,
    in i_consumer_name text,
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
    delete from pgq_node.local_state as s
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name;
    ret_code := 200;
    ret_note := 'Consumer ' || i_consumer_name || ' unregistered from ' || i_queue_name;
end;
$$;
