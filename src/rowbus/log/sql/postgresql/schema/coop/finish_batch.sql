-- Finish the batch of a subconsumer; one of a consumer that has no main consumer is not found here.
-- Locks the subconsumer's row until the transaction ends. Returns 1; or warns and returns 0 when the batch is no longer
-- held: finished before, handed back, or taken over. A caller that gets 0 must undo its work: another repeats it.
create or replace function pgq_coop.finish_batch(i_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.subscription as s
    set sub_active = now(),
        sub_last_tick = null,
        sub_next_tick = null,
        sub_batch = null
    where s.sub_batch = i_batch_id
        and exists (
            select
            from pgq.subscription as m
            join pgq.consumer as main on main.co_id = m.sub_consumer
            join pgq.consumer as own on own.co_id = s.sub_consumer
            where m.sub_queue = s.sub_queue and m.sub_id = s.sub_id and starts_with(own.co_name, main.co_name || '.')
        );
    if not found then
        raise warning 'coop_finish_batch: batch % not found', i_batch_id;
        return 0;
    end if;
    delete from pgq.batch_position as p where p.bp_batch = i_batch_id;
    return 1;
end;
$$;
