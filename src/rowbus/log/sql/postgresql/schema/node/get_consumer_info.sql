-- List the consumers that read a queue on another node and write here.
-- Locks nothing; returns a row for each, by name.
create or replace function pgq_node.get_consumer_info(
    in i_queue_name text,
    out consumer_name text,
    out provider_node text,
    out last_tick_id int8,
    out paused boolean,
    out uptodate boolean,
    out cur_error text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select s.consumer_name, s.provider_node, s.last_tick_id, s.paused, s.uptodate, s.cur_error
    from pgq_node.local_state as s
    where s.queue_name = i_queue_name
    order by s.consumer_name;
end;
$$;
