-- Take a new batch of the main consumer for a subconsumer, and move the main consumer on behind it.
-- Locks both rows until the transaction ends (the caller has locked them). Returns the batch, NULL if there is none.
create or replace function pgq_coop._take_new(
    i_queue_name text,
    i_consumer_name text,
    i_main pgq.subscription,
    i_member pgq.subscription,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    batch record;
begin
    select b.batch_id, b.prev_tick_id, b.cur_tick_id
    into batch
    from pgq.next_batch_custom(i_queue_name, i_consumer_name, i_min_lag, i_min_count, i_min_interval) as b;
    if batch.batch_id is null then
        return null;
    end if;
    -- The main consumer first: no two rows may have the same batch.
    update pgq.subscription as s
    set sub_last_tick = batch.cur_tick_id,
        sub_next_tick = null,
        sub_batch = null,
        sub_active = now()
    where s.sub_queue = i_main.sub_queue and s.sub_consumer = i_main.sub_consumer;
    update pgq.subscription as s
    set sub_last_tick = batch.prev_tick_id,
        sub_next_tick = batch.cur_tick_id,
        sub_batch = batch.batch_id,
        sub_active = now()
    where s.sub_queue = i_member.sub_queue and s.sub_consumer = i_member.sub_consumer;
    return batch.batch_id;
end;
$$;
