-- Say whether a queue is to be ticked now, by PgQ's rules: enough events, or old enough ones; and in quiet times at
-- doubling distances, up to the idle period. Locks nothing.
create or replace function pgq._tick_is_due(i_queue pgq.queue, i_last pgq.tick, i_position bigint)
returns boolean
language plpgsql stable
as $$
declare
    v_before pgq.tick;
    v_period interval := pgq._tick_period(i_queue);
    v_events bigint := i_position - i_last.tick_event_seq;
    v_lag interval := now() - i_last.tick_time;
begin
    if v_events < 0 then
        raise warning 'Negative new_events?  old=% cur=%', i_last.tick_event_seq, i_position;
    end if;
    if i_position = 1 and v_events = 0 and pgq._first_event_waits(i_queue.queue_id, i_last.tick_snapshot) then
        v_events := 1;
    end if;
    if v_events > 0 then
        return v_events >= i_queue.queue_ticker_max_count or v_lag >= v_period;
    end if;
    select * into v_before from pgq.tick as t
    where t.tick_queue = i_queue.queue_id and t.tick_id < i_last.tick_id
    order by t.tick_id desc
    limit 1;
    if not found then
        return true;
    end if;
    if v_lag >= v_period and pgq._writers_ended(i_last, v_before) then
        return true;
    end if;
    return v_lag >= v_period / 2
        and (
            v_lag >= 2 * (i_last.tick_time - v_before.tick_time)
            or v_lag >= i_queue.queue_ticker_idle_period
        );
end
$$;
