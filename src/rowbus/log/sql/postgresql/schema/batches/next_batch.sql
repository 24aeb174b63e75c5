-- Give a consumer its open batch, or open the next one.
-- Locks the subscription until the transaction ends if it opens one; returns the id, NULL if there is no new tick.
create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    answer bigint;
begin
    select b.batch_id into answer
    from pgq.next_batch_custom(i_queue_name, i_consumer_name, null, null, null) as b;
    return answer;
end;
$$;
