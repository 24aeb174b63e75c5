-- Forget where a node of a queue is, and that it read from this one. The root tells all other nodes, by an event.
-- Locks what it removes until the transaction ends. Returns 200, 301 if it was not known, 403 for this database's own node
-- and for the one it reads from.
create or replace function pgq_node.unregister_location(
    in i_queue_name text,
    in i_node_name text,
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
begin
    select n.* into node from pgq_node.node_info as n where n.queue_name = i_queue_name;
    if node.node_name = i_node_name then
        ret_code := 403;
        ret_note := 'Cannot drop node''s own location';
        return;
    elsif pgq_node._is_provider(i_queue_name, i_node_name) then
        ret_code := 403;
        ret_note := 'Cannot drop location of node''s parent';
        return;
    end if;
    perform pgq_node.unregister_subscriber(i_queue_name, i_node_name);
    delete from pgq_node.node_location as l
    where l.queue_name = i_queue_name and l.node_name = i_node_name;
    if found then
        ret_code := 200;
        ret_note := 'Ok';
    else
        ret_code := 301;
        ret_note := 'Location not found: ' || i_queue_name || '/' || i_node_name;
    end if;
    if node.node_type = 'root' then
        perform pgq.insert_event(
            i_queue_name, 'pgq.unregister-location', i_node_name, i_queue_name, null, null, null
        );
    end if;
end;
$$;
