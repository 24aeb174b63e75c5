-- Subscribe a consumer to a queue from a tick on (NULL: the newest), or move one that is subscribed to that tick, which
-- ends its batch. Two sessions may register the same consumer at the same moment: one of them subscribes it.
-- Locks the name and the subscription until the transaction ends, and keeps the queue from being rotated; returns 1, or 0 if it was subscribed already.
create or replace function pgq.register_consumer_at(
    x_queue_name text, x_consumer_name text, x_tick_pos bigint
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue int4;
    v_consumer int4;
    v_tick bigint := x_tick_pos;
begin
    select q.queue_id into v_queue from pgq.queue as q where q.queue_name = x_queue_name
    for key share; -- a rotation deletes ticks: before this one looks for them, or after it is committed
    if not found then
        raise exception 'Event queue not created yet';
    end if;

    select c.co_id into v_consumer from pgq.consumer as c where c.co_name = x_consumer_name for update;
    while not found loop
        insert into pgq.consumer (co_name) values (x_consumer_name) on conflict (co_name) do nothing;
        select c.co_id into v_consumer from pgq.consumer as c where c.co_name = x_consumer_name for update;
    end loop;

    if x_tick_pos is not null
        and not exists (select from pgq.tick as t where t.tick_queue = v_queue and t.tick_id = x_tick_pos)
    then
        raise exception 'cannot reposition, tick not found: %', x_tick_pos;
    end if;

    perform from pgq.subscription as s where s.sub_queue = v_queue and s.sub_consumer = v_consumer for update;
    if found then
        if x_tick_pos is not null then
            perform pgq._reposition(v_queue, v_consumer, x_tick_pos);
        end if;
        return 0;
    end if;

    if v_tick is null then
        select max(t.tick_id) into v_tick from pgq.tick as t where t.tick_queue = v_queue;
        if v_tick is null then
            raise exception 'No ticks for this queue.  Please run ticker on database.';
        end if;
    end if;
    insert into pgq.subscription (sub_queue, sub_consumer, sub_last_tick)
    values (v_queue, v_consumer, v_tick);
    return 1;
end;
$$;
