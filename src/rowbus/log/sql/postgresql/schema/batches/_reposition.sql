-- Move a subscription to a tick; its open batch, if any, is dropped with its marks.
-- Locks the subscription until the transaction ends; returns nothing.
create or replace function pgq._reposition(i_queue_id int4, i_consumer_id int4, i_tick_id bigint)
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    delete from pgq.batch_position as p
    using pgq.subscription as s
    where s.sub_queue = i_queue_id and s.sub_consumer = i_consumer_id and p.bp_batch = s.sub_batch;
    update pgq.subscription as s
    set sub_last_tick = i_tick_id,
        sub_batch = null,
        sub_next_tick = null,
        sub_active = now()
    where s.sub_queue = i_queue_id and s.sub_consumer = i_consumer_id;
end;
$$;
revoke execute on function pgq._reposition(int4, int4, bigint) from public;
