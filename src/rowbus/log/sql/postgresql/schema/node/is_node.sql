-- Say whether this database's node of a queue is the root, or a leaf.
-- Locks nothing; returns a boolean. A queue of which this database is no node is an error.
create or replace function pgq_node.is_root_node(i_queue_name text)
returns boolean
language plpgsql
as $$
begin
    return pgq_node._is_node(i_queue_name, 'root');
end;
$$;

create or replace function pgq_node.is_leaf_node(i_queue_name text)
returns boolean
language plpgsql
as $$
begin
    return pgq_node._is_node(i_queue_name, 'leaf');
end;
$$;

create or replace function pgq_node._is_node(i_queue_name text, i_node_type text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    type_now text := (select n.node_type from pgq_node.node_info as n where n.queue_name = i_queue_name);
begin
    if type_now is null then
        raise exception 'queue does not exist: %', i_queue_name;
    end if;
    return type_now = i_node_type;
end;
$$;
