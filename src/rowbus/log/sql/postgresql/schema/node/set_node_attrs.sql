-- Set the attributes of this database's node of a queue, url-encoded; they are its worker's business.
-- Locks the node's row until the transaction ends. Returns 200, or 404 for an unknown queue.
create or replace function pgq_node.set_node_attrs(
    in i_queue_name text,
    in i_node_attrs text,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq_node.node_info as n set node_attrs = i_node_attrs where n.queue_name = i_queue_name;
    if found then
        ret_code := 200;
        ret_note := 'Node attributes updated';
    else
        ret_code := 404;
        ret_note := 'Node not found';
    end if;
end;
$$;
