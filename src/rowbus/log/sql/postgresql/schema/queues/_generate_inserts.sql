-- Write the insert functions of all queues: after an installation, a take-over, a restore.
-- Waits for others who do that, until the end of the transaction; returns how many queues have theirs.
create or replace function pgq._generate_inserts()
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    perform pgq._lock_definitions();
    perform pgq._generate_insert(queue_id) from pgq.queue;
    return pgq._generate_dispatch();
end;
$$;
revoke execute on function pgq._generate_inserts() from public;
