-- Choose where a merged batch ends: at the newest tick, if that has the minimum of events or of time behind the start; but
-- if it has twice as much or more, at the first tick that has the minimum, so that a batch does not grow without bounds.
-- Locks nothing; returns one row, of NULLs if no tick is far enough.
create or replace function pgq.find_tick_helper(
    i_queue_id int4,
    i_prev_tick_id bigint,
    i_prev_tick_time timestamptz,
    i_prev_tick_seq bigint,
    i_min_count bigint,
    i_min_interval interval,
    out next_tick_id bigint,
    out next_tick_time timestamptz,
    out next_tick_seq bigint
)
language plpgsql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_far boolean;
begin
    select t.tick_id, t.tick_time, t.tick_event_seq
    into next_tick_id, next_tick_time, next_tick_seq
    from pgq.tick as t
    where t.tick_queue = i_queue_id and t.tick_id > i_prev_tick_id
    order by t.tick_id desc
    limit 1;
    if not found then
        return;
    end if;

    v_far := next_tick_seq - i_prev_tick_seq > i_min_count * 2
        or next_tick_time - i_prev_tick_time > i_min_interval * 2;
    if v_far then
        select t.tick_id, t.tick_time, t.tick_event_seq
        into next_tick_id, next_tick_time, next_tick_seq
        from pgq.tick as t
        where t.tick_queue = i_queue_id
            and t.tick_id > i_prev_tick_id
            and (
                t.tick_event_seq - i_prev_tick_seq >= i_min_count
                or t.tick_time - i_prev_tick_time >= i_min_interval
            )
        order by t.tick_id
        limit 1;
    elsif (
        next_tick_seq - i_prev_tick_seq >= i_min_count or next_tick_time - i_prev_tick_time >= i_min_interval
    ) is not true then
        next_tick_id := null;
        next_tick_time := null;
        next_tick_seq := null;
    end if;
end;
$$;
