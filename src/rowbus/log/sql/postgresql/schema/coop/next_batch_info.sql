-- Take the next batch for a subconsumer, with its ticks as pgq.next_batch_info gives them. In this order: the one it
-- has already, one that was handed back, one of a subconsumer that gave no sign of life for `i_dead_interval`, a new
-- one. The consumer and the subconsumer are registered where they are not yet.
-- Locks the main consumer's row until the transaction ends: commit before you work, or the others wait for you.
-- Returns one row; all NULL if there is nothing to do, or if another session is just using the same subconsumer.
create or replace function pgq_coop.next_batch_info(
    in i_queue_name text,
    in i_consumer_name text,
    in i_subconsumer_name text,
    in i_min_lag interval,
    in i_min_count int4,
    in i_min_interval interval,
    in i_dead_interval interval,
    out batch_id int8,
    out cur_tick_id int8,
    out prev_tick_id int8,
    out cur_tick_time timestamptz,
    out prev_tick_time timestamptz,
    out cur_tick_event_seq int8,
    out prev_tick_event_seq int8
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    main pgq.subscription := pgq_coop._lock_consumer(i_queue_name, i_consumer_name);
    member pgq.subscription := pgq_coop._find_member(main, i_consumer_name || '.' || i_subconsumer_name);
begin
    if main.sub_batch is not null then
        raise exception 'main consumer has batch open?';
    end if;
    if member.sub_consumer is null then
        perform pgq_coop.register_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name);
        main := pgq_coop._lock_consumer(i_queue_name, i_consumer_name);
        member := pgq_coop._find_member(main, i_consumer_name || '.' || i_subconsumer_name);
    end if;
    select s.* into member
    from pgq.subscription as s
    where s.sub_queue = member.sub_queue and s.sub_consumer = member.sub_consumer
    for update skip locked;
    if not found then
        return;
    end if;
    batch_id := coalesce(
        member.sub_batch,
        pgq_coop._take_over(i_consumer_name, main, member, i_dead_interval),
        pgq_coop._take_new(i_queue_name, i_consumer_name, main, member, i_min_lag, i_min_count, i_min_interval)
    );
    update pgq.subscription as s
    set sub_active = now()
    where s.sub_queue = member.sub_queue and s.sub_consumer = member.sub_consumer and s.sub_active < now()
        -- An idle one need not write at each call, only often enough to count as alive.
        and (s.sub_batch is not null or s.sub_active < now() - i_dead_interval / 2);
    select cur.tick_id, prev.tick_id, cur.tick_time, prev.tick_time, cur.tick_event_seq, prev.tick_event_seq
    into cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time, cur_tick_event_seq, prev_tick_event_seq
    from pgq.subscription as s
    join pgq.tick as cur on cur.tick_queue = s.sub_queue and cur.tick_id = s.sub_next_tick
    join pgq.tick as prev on prev.tick_queue = s.sub_queue and prev.tick_id = s.sub_last_tick
    where s.sub_batch = batch_id;
end;
$$;
