-- Delete dead letters of a consumer: those of these dl_ids.
-- Locks the rows it deletes; returns how many.
create or replace function pgq.dead_letter_discard(i_queue_name text, i_consumer_name text, i_ids bigint[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_discarded integer;
begin
    delete from pgq.dead_letter as d
    using pgq.queue as q, pgq.consumer as c
    where
        q.queue_name = i_queue_name and c.co_name = i_consumer_name
        and d.dl_queue = q.queue_id and d.dl_consumer = c.co_id
        and d.dl_id = any(i_ids);
    get diagnostics v_discarded = row_count;
    return v_discarded;
end;
$$;
