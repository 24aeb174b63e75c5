-- Give a consumer its open batch, or open the next one: up to the next tick, or, with a minimum of events or time, up to a
-- tick that is far enough; nothing while that tick is younger than the minimum lag.
-- The batch is opened by an update that asks for the position it was reckoned from: of two sessions that poll the same
-- consumer one opens it, the other waits and is given the same batch. An idle poll locks and writes nothing.
-- Locks the subscription until the transaction ends if it opens one; returns one row, of NULLs if there is no batch.
create or replace function pgq.next_batch_custom(
    i_queue_name text,
    i_consumer_name text,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval,
    out batch_id bigint,
    out cur_tick_id bigint,
    out prev_tick_id bigint,
    out cur_tick_time timestamptz,
    out prev_tick_time timestamptz,
    out cur_tick_event_seq bigint,
    out prev_tick_event_seq bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
set enable_seqscan = off -- see _subscription_tail
as $$
declare
    v_queue int4;
    v_consumer int4;
    v_sub record;
    v_place tid;
    v_from pgq.tick;
    v_to pgq.tick;
begin
    select q.queue_id, c.co_id into v_queue, v_consumer
    from pgq.queue as q, pgq.consumer as c
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name;

    loop
        v_sub := pgq._find_subscription(v_queue, v_consumer);
        if v_sub.place is null then
            raise exception 'Not subscriber to queue: %/%',
                coalesce(i_queue_name, 'NULL'), coalesce(i_consumer_name, 'NULL');
        end if;

        select t.* into v_from from pgq.tick as t where t.tick_queue = v_queue and t.tick_id = v_sub.last_tick;
        if not found then
            raise exception 'PgQ corruption: Consumer % on queue % does not see tick <NULL>', -- PgQ's text
                i_consumer_name, i_queue_name
                using detail = format('The tick is %s.', v_sub.last_tick);
        end if;

        batch_id := v_sub.batch;
        if batch_id is not null then
            select t.* into v_to from pgq.tick as t where t.tick_queue = v_queue and t.tick_id = v_sub.next_tick;
            exit;
        end if;
        v_to := pgq._next_tick(v_from, i_min_lag, i_min_count, i_min_interval);
        if v_to.tick_id is null then
            return;
        end if;

        batch_id := nextval('pgq.batch_id_seq');
        update pgq.subscription as s
        set sub_batch = batch_id, sub_next_tick = v_to.tick_id, sub_active = now()
        where s.ctid = v_sub.place and s.sub_batch is null and s.sub_last_tick = v_from.tick_id
        returning s.ctid into v_place;
        if found then
            perform set_config('pgq.subscription_place', v_place::text, false);
            exit;
        end if;
    end loop;
    cur_tick_id := v_to.tick_id;
    cur_tick_time := v_to.tick_time;
    cur_tick_event_seq := v_to.tick_event_seq;
    prev_tick_id := v_from.tick_id;
    prev_tick_time := v_from.tick_time;
    prev_tick_event_seq := v_from.tick_event_seq;
end;
$$;
