-- Keep this transaction's events readable across a rotation: give the transaction its number before it reads the
-- queue's row, so that a later rotation has a higher number. A transaction that keeps an old snapshot
-- (REPEATABLE READ) could read a row from before a rotation: it locks the row, which fails with a serialization error
-- if the row has changed since.
-- Locks the queue's row against rotation in such transactions only; returns nothing.
create or replace function pgq._await_rotation(i_queue text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    perform txid_current();
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        perform from pgq.queue as q where q.queue_name = i_queue for share;
    end if;
end;
$$;
