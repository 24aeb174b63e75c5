-- Choose the tick at which the batch that follows a tick ends: the next one, or, with a minimum of events or of time, one
-- that is far enough; none while it is younger than the minimum lag.
-- Locks nothing; returns the tick, or a row of NULLs.
create or replace function pgq._next_tick(
    i_from pgq.tick, i_min_lag interval, i_min_count int4, i_min_interval interval
)
returns pgq.tick
language plpgsql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_id bigint;
    v_tick pgq.tick;
begin
    if i_min_count is null and i_min_interval is null then
        select t.* into v_tick
        from pgq.tick as t
        where t.tick_queue = i_from.tick_queue and t.tick_id > i_from.tick_id
        order by t.tick_id
        limit 1;
    else
        v_id := (pgq.find_tick_helper(
            i_from.tick_queue, i_from.tick_id, i_from.tick_time, i_from.tick_event_seq, i_min_count, i_min_interval
        )).next_tick_id;
        select t.* into v_tick
        from pgq.tick as t
        where t.tick_queue = i_from.tick_queue and t.tick_id = v_id;
    end if;
    if now() - v_tick.tick_time < i_min_lag then
        v_tick := null;
    end if;
    return v_tick;
end;
$$;
revoke execute on function pgq._next_tick(pgq.tick, interval, int4, interval) from public;
