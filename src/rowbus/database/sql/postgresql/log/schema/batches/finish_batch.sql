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
    v_tail tid := pgq._subscription_tail();
begin
    update pgq.subscription as s
    set sub_active = now(),
        sub_last_tick = s.sub_next_tick,
        sub_next_tick = null,
        sub_batch = null
    where s.ctid >= v_tail and s.sub_batch = x_batch_id;
    if not found then
        update pgq.subscription as s
        set sub_active = now(),
            sub_last_tick = s.sub_next_tick,
            sub_next_tick = null,
            sub_batch = null
        where s.ctid >= '(0,0)' and s.sub_batch = x_batch_id;
    end if;
    if not found then
        raise warning 'finish_batch: batch % not found', x_batch_id;
        return 0;
    end if;

    delete from pgq.batch_position as p where p.bp_batch = x_batch_id;
    return 1;
end;
$$;
