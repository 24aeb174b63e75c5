-- Count the events of this transaction for the limit of a queue, as the C function does in its memory: also events that
-- were refused, or undone by a rollback to a savepoint. currval() of a sequence is such a memory: private to the
-- session, and outside of transactions. It holds the transaction's number and the count.
-- Creates the queue's sequence if it is missing; returns the count, with these.
create or replace function pgq._count_events(i_queue_id int4, i_events int8)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_sequence text := pgq._limit_sequence(i_queue_id);
    v_transaction int8 := txid_current() & 4294967295;
    v_last int8;
    v_count int8 := i_events;
begin
    begin
        v_last := currval(v_sequence);
        if v_last >> 31 = v_transaction then
            v_count := least(v_count + (v_last & 2147483647), 2147483647);
        end if;
    exception
        when object_not_in_prerequisite_state then null; -- not used in this session yet
    end;
    perform setval(v_sequence, (v_transaction << 31) | v_count);
    return v_count;
end;
$$;
revoke execute on function pgq._count_events(int4, int8) from public;
