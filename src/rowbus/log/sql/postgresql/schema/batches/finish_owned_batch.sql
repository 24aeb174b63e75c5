-- Finish a batch as the consumer that holds it: one that lost it to another, or was moved meanwhile, cannot.
-- Locks the subscription until the transaction ends; returns 1, or 0 with a warning for a batch that is not open.
create or replace function pgq.finish_batch(i_queue_name text, i_consumer_name text, i_batch_id bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_owner record;
begin
    select q.queue_name, c.co_name
    into v_owner
    from pgq._open_batch(i_batch_id) as b
    join pgq.queue as q on q.queue_id = b.queue_id
    join pgq.consumer as c on c.co_id = b.consumer_id;
    if found and (v_owner.queue_name <> i_queue_name or v_owner.co_name <> i_consumer_name) is not false then
        raise exception 'batch % belongs to %/%, not to %/%',
            i_batch_id, v_owner.queue_name, v_owner.co_name, i_queue_name, i_consumer_name
            using errcode = 'insufficient_privilege';
    end if;
    return pgq.finish_batch(i_batch_id);
end;
$$;
