-- Forget a node of a queue. Its own database drops the queue with all consumers, and forgets all the others as well;
-- every other database forgets that node only, unless it reads from it.
-- Locks what it removes until the transaction ends. Returns 200, or 405 for the node that is read from.
create or replace function pgq_node.drop_node(
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
begin
    if exists (
        select from pgq_node.node_info as n where n.queue_name = i_queue_name and n.node_name = i_node_name
    ) then
        delete from pgq_node.subscriber_info as s where s.queue_name = i_queue_name;
        delete from pgq_node.local_state as s where s.queue_name = i_queue_name;
        delete from pgq_node.node_info as n where n.queue_name = i_queue_name;
        if exists (select from pgq.queue as q where q.queue_name = i_queue_name) then
            perform pgq.drop_queue(i_queue_name, true);
        end if;
        delete from pgq_node.node_location as l where l.queue_name = i_queue_name;
    elsif pgq_node._is_provider(i_queue_name, i_node_name) then
        ret_code := 405;
        ret_note := 'Cannot drop provider node: ' || i_node_name;
        return;
    else
        perform pgq_node.unregister_location(i_queue_name, i_node_name);
    end if;
    ret_code := 200;
    ret_note := 'Node dropped: ' || i_node_name;
end;
$$;
