-- Turn a branch into the root: it takes inserts and makes ticks of its own, behind the last one it copied.
-- Locks the rows it changes until the transaction ends. Returns 200; 301 if this is no branch, 404 if it is no node.
create or replace function pgq_node.promote_branch(in i_queue_name text, out ret_code int4, out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    node pgq_node.node_info;
begin
    select n.* into node from pgq_node.node_info as n where n.queue_name = i_queue_name for update;
    if not found then
        ret_code := 404;
        ret_note := 'Node not initialized for queue: ' || i_queue_name;
    elsif node.node_type <> 'branch' then
        ret_code := 301;
        ret_note := 'Node not branch';
    else
        update pgq.queue as q
        set queue_disable_insert = false, queue_external_ticker = false
        where q.queue_name = i_queue_name;
        perform pgq_node._change_type(i_queue_name, 'root', node.node_name);
        ret_code := 200;
        ret_note := 'Branch node promoted to root';
    end if;
end;
$$;
