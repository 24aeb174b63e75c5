-- Refuse a tick that does not follow all others, if the queue's option ordered_ticks is on: the tick's id must be the
-- highest, and its snapshot taken after the lock that the caller holds, as in READ COMMITTED. Locks nothing.
create or replace function pgq._check_tick_order(i_queue pgq.queue, i_tick_id bigint)
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_last bigint := pgq.last_tick(i_queue.queue_name);
begin
    if not exists (
        select from pgq.queue_option as o where o.qo_queue = i_queue.queue_id and o.qo_ordered_ticks
    ) then
        return;
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the ticker must run in READ COMMITTED, not in %', current_setting('transaction_isolation');
    end if;
    if v_last > i_tick_id then
        raise exception 'tick % of queue % comes after tick %', i_tick_id, i_queue.queue_name, v_last;
    end if;
end
$$;
revoke execute on function pgq._check_tick_order(pgq.queue, bigint) from public;
