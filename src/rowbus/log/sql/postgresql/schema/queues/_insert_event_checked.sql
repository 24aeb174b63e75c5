-- Insert one event the long way: for queues that limit or refuse inserts, and for those without a function of their
-- own. `i_next` is the number already taken from the queue's sequence, if one was: the sequence advances for every
-- event, even one that brings its own number or is refused, because the ticker looks at the sequence.
-- Runs with its owner's rights and any search path: types are qualified, too, or keywords such as bigint.
-- Locks nothing but the row it writes; returns the event's number. Errors have the SQLSTATE of the C function's.
create or replace function pgq._insert_event_checked(
    i_queue text, i_id int8, i_time timestamptz, i_owner int4, i_retry int4,
    i_type text, i_data text, i_extra1 text, i_extra2 text, i_extra3 text, i_extra4 text, i_next int8
)
returns int8
language plpgsql
as $$
declare
    v_queue pgq.queue := pgq._writable_queue(i_queue);
    v_next bigint := coalesce(i_next, pg_catalog.nextval(pgq._queue_sequence(v_queue.queue_event_seq)));
begin
    perform pgq._check_insert(v_queue, 1);
    execute pg_catalog.format(
        'insert into %s (ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data, '
        'ev_extra1, ev_extra2, ev_extra3, ev_extra4) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)',
        pgq._current_table(v_queue)
    )
    using
        coalesce(i_id, v_next), coalesce(i_time, pg_catalog.now()), i_owner, i_retry,
        i_type, i_data, i_extra1, i_extra2, i_extra3, i_extra4;
    return coalesce(i_id, v_next);
end;
$$;
revoke execute on function pgq._insert_event_checked(
    text, int8, timestamptz, int4, int4, text, text, text, text, text, text, int8
) from public;
grant execute on function pgq._insert_event_checked(
    text, int8, timestamptz, int4, int4, text, text, text, text, text, text, int8
) to pgq_admin;
