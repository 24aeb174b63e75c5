-- Let a consumer read from another node from now on; ticks have the same ids everywhere, so it keeps its position.
-- Locks the consumer's state until the transaction ends. Returns 200, or 404 for an unknown node or consumer.
create or replace function pgq_node.change_consumer_provider(
    in i_queue_name text,
    in i_consumer_name text,
    in i_new_provider text,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pgq_node.node_location as l where l.queue_name = i_queue_name and l.node_name = i_new_provider
    ) then
        ret_code := 404;
        ret_note := 'New node not found: ' || i_new_provider;
        return;
    end if;
    update pgq_node.local_state as s
    set provider_node = i_new_provider, uptodate = false
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name;
    if found then
        ret_code := 200;
        ret_note := 'Consumer provider node set to : ' || i_new_provider;
    else
        ret_code := 404;
        ret_note := 'Unknown consumer: ' || i_queue_name || '/' || i_consumer_name;
    end if;
end;
$$;
