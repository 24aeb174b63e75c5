-- Note where a node of a queue is, or whether it is dead; without a location, only of a node that is known. The root
-- tells all other nodes, by an event.
-- Locks the location until the transaction ends. Returns 200.
create or replace function pgq_node.register_location(
    in i_queue_name text,
    in i_node_name text,
    in i_node_location text,
    in i_dead boolean,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if i_node_location is null then
        update pgq_node.node_location as l
        set dead = i_dead
        where l.queue_name = i_queue_name and l.node_name = i_node_name;
    else
        insert into pgq_node.node_location (queue_name, node_name, node_location, dead)
        values (i_queue_name, i_node_name, i_node_location, i_dead)
        on conflict (queue_name, node_name) do update
        set node_location = excluded.node_location, dead = excluded.dead;
    end if;
    if exists (select from pgq_node.node_info as n where n.queue_name = i_queue_name and n.node_type = 'root') then
        perform pgq.insert_event(
            i_queue_name, 'pgq.location-info', i_node_name, i_queue_name, i_node_location, i_dead::text, null
        );
    end if;
    ret_code := 200;
    ret_note := 'Location registered';
end;
$$;
