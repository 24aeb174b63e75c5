-- Say what a consumer that writes here needs to know: where it reads, how far it is, whether it should pause.
-- Locks nothing. Returns 100, or 404 for an unknown queue, consumer or provider, with what is known up to there.
create or replace function pgq_node.get_consumer_state(
    in i_queue_name text,
    in i_consumer_name text,
    out ret_code int4,
    out ret_note text,
    out node_type text,
    out node_name text,
    out completed_tick int8,
    out provider_node text,
    out provider_location text,
    out paused boolean,
    out uptodate boolean,
    out cur_error text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    select n.node_type, n.node_name
    into node_type, node_name
    from pgq_node.node_info as n
    where n.queue_name = i_queue_name;
    if not found then
        ret_code := 404;
        ret_note := 'Unknown queue: ' || i_queue_name;
        return;
    end if;
    select s.last_tick_id, s.provider_node, l.node_location, s.paused, s.uptodate, s.cur_error
    into completed_tick, provider_node, provider_location, paused, uptodate, cur_error
    from pgq_node.local_state as s
    left join pgq_node.node_location as l on l.queue_name = s.queue_name and l.node_name = s.provider_node
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name;
    if not found then
        ret_code := 404;
        ret_note := 'Unknown consumer: ' || i_queue_name || '/' || i_consumer_name;
    elsif provider_location is null then
        ret_code := 404;
        ret_note := 'Unknown provider node: ' || i_queue_name || '/' || provider_node;
    else
        ret_code := 100;
        ret_note := 'Ok';
    end if;
end;
$$;
