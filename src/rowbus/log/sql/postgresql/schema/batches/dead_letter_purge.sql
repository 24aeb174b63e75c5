-- Delete dead letters of a consumer: all, or those from before a time.
-- Locks the rows it deletes; returns how many.
create or replace function pgq.dead_letter_purge(
    i_queue_name text, i_consumer_name text, i_before timestamptz default null
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_purged integer;
begin
    delete from pgq.dead_letter as d
    using pgq.queue as q, pgq.consumer as c
    where
        q.queue_name = i_queue_name and c.co_name = i_consumer_name
        and d.dl_queue = q.queue_id and d.dl_consumer = c.co_id
        and (i_before is null or d.dl_time < i_before);
    get diagnostics v_purged = row_count;
    return v_purged;
end;
$$;
