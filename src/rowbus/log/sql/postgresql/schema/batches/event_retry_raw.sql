-- Put an event, of this or another origin, into a consumer's retry queue as it is given; without an id it gets the next.
-- Locks its place in the retry queue; returns its id.
create or replace function pgq.event_retry_raw(
    x_queue text, x_consumer text, x_retry_after timestamptz, x_ev_id bigint,
    x_ev_time timestamptz, x_ev_retry integer,
    x_ev_type text, x_ev_data text, x_ev_extra1 text, x_ev_extra2 text, x_ev_extra3 text, x_ev_extra4 text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_id bigint := x_ev_id;
    v_sub record;
begin
    select q.queue_id, q.queue_event_seq, s.sub_id
    into v_sub
    from pgq.queue as q
    join pgq.subscription as s on s.sub_queue = q.queue_id
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = x_queue and c.co_name = x_consumer;
    if not found then
        raise exception 'consumer not registered';
    end if;
    if v_id is null then
        v_id := nextval(pgq._queue_sequence(v_sub.queue_event_seq));
    end if;
    insert into pgq.retry_queue (
        ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4
    )
    values (
        x_retry_after, v_sub.queue_id, v_id, x_ev_time, v_sub.sub_id, x_ev_retry, x_ev_type, x_ev_data,
        x_ev_extra1, x_ev_extra2, x_ev_extra3, x_ev_extra4
    );
    return v_id;
end;
$$;
