-- Wait until no other session creates, drops or renames queues, or installs the schema: all of these write the function
-- insert_event_raw(), and a second writer of a function fails. The key is that of log/installation/lock.sql.
-- Locks only itself, until the end of the transaction; returns nothing.
create or replace function pgq._lock_definitions()
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('rowbus: schema pgq', 0));
end;
$$;
revoke execute on function pgq._lock_definitions() from public;
