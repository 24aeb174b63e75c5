-- Tell a consumer that writes here to pause, or to go on; it reports with set_consumer_uptodate that it has seen that.
-- Locks the consumer's state until the transaction ends.
-- Returns 200, 201 if it was told so already, 404 for an unknown consumer.
create or replace function pgq_node.set_consumer_paused(
    in i_queue_name text,
    in i_consumer_name text,
    in i_paused boolean,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    word text := case when i_paused then 'paused' else 'resumed' end;
    paused_now boolean;
begin
    select s.paused
    into paused_now
    from pgq_node.local_state as s
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name
    for update;
    if not found then
        ret_code := 404;
        ret_note := 'Unknown consumer: ' || i_consumer_name;
    elsif paused_now = i_paused then
        ret_code := 201;
        ret_note := 'Consumer ' || i_consumer_name || ' already ' || word;
    else
        update pgq_node.local_state as s
        set paused = i_paused, uptodate = false
        where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name;
        ret_code := 200;
        ret_note := 'Consumer ' || i_consumer_name || ' tagged as ' || word;
    end if;
end;
$$;
