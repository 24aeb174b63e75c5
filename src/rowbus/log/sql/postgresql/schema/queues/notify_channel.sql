-- Name the channel on which a queue's ticks are announced, for LISTEN; the payload is the tick's number.
-- Every name is qualified, because the ticker calls this and `set search_path` costs at each call.
-- Locks nothing; returns the name.
create or replace function pgq.notify_channel(i_queue_name text)
returns text
language plpgsql
stable
as $$
declare
    v_queue integer;
begin
    select q.queue_id into v_queue
    from pgq.queue as q
    where q.queue_name operator(pg_catalog.=) i_queue_name;
    if not found then
        raise exception 'No such event queue';
    end if;
    return pg_catalog.concat('pgq_', v_queue);
end;
$$;
