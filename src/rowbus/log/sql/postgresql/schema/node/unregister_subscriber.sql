-- Let another node no longer read from this one: unregister its worker, and what held events back for it.
-- Locks the rows it removes until the transaction ends. Returns 200, or 304 if it did not read from here.
create or replace function pgq_node.unregister_subscriber(
    in i_queue_name text,
    in i_remote_node_name text,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    subscriber pgq_node.subscriber_info;
begin
    delete from pgq_node.subscriber_info as s
    where s.queue_name = i_queue_name and s.subscriber_node = i_remote_node_name
    returning s.* into subscriber;
    if not found then
        ret_code := 304;
        ret_note := 'Subscriber not found';
        return;
    end if;
    perform pgq.unregister_consumer(i_queue_name, subscriber.watermark_name);
    perform pgq.unregister_consumer(i_queue_name, subscriber.worker_name);
    ret_code := 200;
    ret_note := 'Subscriber unregistered: ' || i_remote_node_name;
end;
$$;
