-- Publish the global watermark of a root when it is five minutes behind; a maintenance daemon calls it for each root.
-- Locks the watermark's subscription until the transaction ends. Returns 0: there is no more to do now.
create or replace function pgq_node.maint_watermark(i_queue_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select
        from pgq_node.node_info as n
        join pgq.get_consumer_info(n.queue_name, '.global_watermark') as c on c.lag >= interval '5 minutes'
        where n.queue_name = i_queue_name and n.node_type = 'root'
    ) then
        perform pgq_node.set_global_watermark(i_queue_name, null);
    end if;
    return 0;
end;
$$;
