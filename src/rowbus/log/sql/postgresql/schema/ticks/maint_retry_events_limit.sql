-- Move events whose time has come from the retry queue into their queues, the longest due first, at most `i_limit`; those
-- that their queue would refuse now wait. Locks the retry queue against other movers. Returns how many were moved.
create or replace function pgq.maint_retry_events(i_limit integer)
returns integer
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return pgq._move_retries(i_limit, false);
end;
$$;
