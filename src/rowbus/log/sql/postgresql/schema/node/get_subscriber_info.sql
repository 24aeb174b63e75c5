-- List the nodes that read from this one. What such a node says of itself counts for more while it is being moved.
-- Locks nothing; returns a row for each, by name, with the lowest tick that it or a node below it has completed.
create or replace function pgq_node.get_subscriber_info(
    in i_queue_name text,
    out node_name text,
    out worker_name text,
    out node_watermark int8
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select s.subscriber_node, s.worker_name, pgq_node._consumer_position(i_queue_name, s.watermark_name)
    from pgq_node.subscriber_info as s
    where s.queue_name = i_queue_name
    order by s.subscriber_node;
end;
$$;
