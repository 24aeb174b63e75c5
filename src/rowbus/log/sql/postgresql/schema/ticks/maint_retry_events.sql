-- Move at most 10 events whose time has come; PgQ's own call, to be repeated until it returns 0. As with PgQ, a queue that
-- refuses one is an error. Locks the retry queue against other movers. Returns how many were moved.
create or replace function pgq.maint_retry_events()
returns integer
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return pgq._move_retries(10, true);
end;
$$;
