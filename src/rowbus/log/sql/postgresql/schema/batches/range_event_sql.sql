-- Write the query for the events between two ticks (see get_range_events).
-- Locks nothing; returns the text.
create or replace function pgq.range_event_sql(
    i_queue_name text,
    i_from_tick bigint,
    i_to_tick bigint,
    i_consumer_name text default null
)
returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue int4;
    v_owner int4;
    v_tick bigint;
begin
    select q.queue_id into v_queue from pgq.queue as q where q.queue_name = i_queue_name;
    if not found then
        raise exception 'Event queue not found';
    end if;
    if i_consumer_name is not null then
        select s.sub_id into v_owner
        from pgq.consumer as c
        join pgq.subscription as s on s.sub_queue = v_queue and s.sub_consumer = c.co_id
        where c.co_name = i_consumer_name;
        if not found then
            raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name;
        end if;
    end if;
    if i_from_tick > i_to_tick then
        raise exception 'tick % of queue % is after tick %', i_from_tick, i_queue_name, i_to_tick;
    end if;
    foreach v_tick in array array[i_from_tick, i_to_tick] loop
        if not exists (select from pgq.tick as t where t.tick_queue = v_queue and t.tick_id = v_tick) then
            raise exception 'tick % of queue % is not retained; the oldest is %',
                v_tick, i_queue_name, (select min(t.tick_id) from pgq.tick as t where t.tick_queue = v_queue)
                using errcode = 'object_not_in_prerequisite_state';
        end if;
    end loop;
    return pgq._range_sql(v_queue, i_from_tick, i_to_tick, v_owner);
end;
$$;
