-- Finish a batch: its end tick becomes the position of the consumer.
-- Locks the subscription until the transaction ends; returns 1, or 0 with a warning for a batch that is not open.
create or replace function pgq.finish_batch(x_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
set enable_seqscan = off -- see _subscription_tail
as $$
declare
    v_seen tid := pgq._find_batch(x_batch_id);
    v_place tid;
begin
    update pgq.subscription as s
    set sub_active = now(), sub_last_tick = s.sub_next_tick, sub_next_tick = null, sub_batch = null
    where s.ctid = v_seen and s.sub_batch = x_batch_id
    returning s.ctid into v_place;
    if not found and v_seen is not null then -- it has moved meanwhile: its consumer gave a sign of life
        update pgq.subscription as s
        set sub_active = now(), sub_last_tick = s.sub_next_tick, sub_next_tick = null, sub_batch = null
        where s.ctid >= '(0,0)' and s.sub_batch = x_batch_id
        returning s.ctid into v_place;
    end if;
    if not found then
        raise warning 'finish_batch: batch % not found', x_batch_id;
        return 0;
    end if;

    perform set_config('pgq.subscription_place', v_place::text, false);
    delete from pgq.batch_position as p where p.bp_batch = x_batch_id;
    return 1;
end;
$$;
