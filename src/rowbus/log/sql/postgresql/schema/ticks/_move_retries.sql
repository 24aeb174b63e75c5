-- Move events whose time has come from the retry queue into their queues, the longest due first, at most `i_limit`.
-- Unless `i_any`, those that their queue would refuse stay: of a queue with inserting disabled, and beyond what a queue takes
-- from one transaction. So one queue never keeps the others' events from coming back.
-- Locks the retry queue against other movers. Returns how many were moved.
create or replace function pgq._move_retries(i_limit integer, i_any boolean)
returns integer
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_moved integer;
begin
    lock table pgq.retry_queue in share update exclusive mode;
    with due as (
        select r.ev_owner, r.ev_id, r.ev_queue, r.ev_retry_after, q.queue_per_tx_limit
        from pgq.retry_queue as r
        inner join pgq.queue as q on q.queue_id = r.ev_queue
        where r.ev_retry_after <= now()
            and (
                i_any
                or (not q.queue_disable_insert or current_setting('session_replication_role') = 'replica')
                and coalesce(q.queue_per_tx_limit > 0, true)
            )
        order by r.ev_retry_after
        limit i_limit
    ),

    numbered as (
        select due.*, row_number() over (partition by ev_queue order by ev_retry_after) as place
        from due
    ),

    taken as (
        delete from pgq.retry_queue as r
        using numbered as n
        where r.ev_owner = n.ev_owner and r.ev_id = n.ev_id
            and (i_any or coalesce(n.place <= n.queue_per_tx_limit, true))
        returning r.*
    ),

    put_back as (
        select pgq.insert_event_raw(
            q.queue_name, t.ev_id, t.ev_time, t.ev_owner, t.ev_retry, t.ev_type, t.ev_data,
            t.ev_extra1, t.ev_extra2, t.ev_extra3, t.ev_extra4
        ) as ev_id
        from (select * from taken order by ev_retry_after) as t
        inner join pgq.queue as q on q.queue_id = t.ev_queue
    )

    select count(ev_id)::integer into v_moved from put_back;
    return v_moved;
end
$$;
revoke execute on function pgq._move_retries(integer, boolean) from public;
grant execute on function pgq._move_retries(integer, boolean) to pgq_admin;
