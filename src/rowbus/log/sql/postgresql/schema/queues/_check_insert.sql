-- Refuse events for a queue that is closed to inserts, or has had as many as it allows in one transaction.
-- A replica (session_replication_role) inserts what was allowed elsewhere.
-- Locks nothing; returns nothing, or fails as the C function does.
create or replace function pgq._check_insert(i_queue pgq.queue, i_events int8)
returns void
language plpgsql
as $$
begin
    if i_queue.queue_disable_insert
        and pg_catalog.current_setting('session_replication_role') operator(pg_catalog.<>) 'replica'
    then
        raise exception using errcode = 'XX000', message = 'Insert into queue disallowed';
    end if;
    if coalesce(i_queue.queue_per_tx_limit operator(pg_catalog.>=) 0, false) -- NULL would not stop AND from counting
        and pgq._count_events(i_queue.queue_id, i_events)
        operator(pg_catalog.>) i_queue.queue_per_tx_limit::pg_catalog.int8
    then
        raise exception using errcode = 'XX000', message = pg_catalog.format(
            'Queue ''%s'' allows max %s events from one TX', i_queue.queue_name, i_queue.queue_per_tx_limit
        );
    end if;
end;
$$;
revoke execute on function pgq._check_insert(pgq.queue, int8) from public;
grant execute on function pgq._check_insert(pgq.queue, int8) to pgq_admin;
