-- List all nodes of a queue, with what to connect to.
-- Locks nothing; returns a row for each.
create or replace function pgq_node.get_queue_locations(
    in i_queue_name text,
    out node_name text,
    out node_location text,
    out dead boolean
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select l.node_name, l.node_location, l.dead
    from pgq_node.node_location as l
    where l.queue_name = i_queue_name;
end;
$$;
