-- Find the queue that events are to be inserted into; see _await_rotation.
-- Returns its row, or fails as the C function does.
create or replace function pgq._writable_queue(i_queue text)
returns pgq.queue
language plpgsql
as $$
declare
    v_queue pgq.queue;
begin
    if i_queue is null then
        raise exception using errcode = 'XX000', message = 'Queue name must not be NULL';
    end if;
    perform pgq._await_rotation(i_queue);
    select q.* into v_queue
    from pgq.queue as q
    where q.queue_name operator(pg_catalog.=) i_queue;
    if not found then
        raise exception using errcode = 'XX000', message = 'No such queue';
    end if;
    return v_queue;
end;
$$;

-- Name the table a queue is written to at present.
-- Locks nothing; returns the table, or fails when it does not exist or is none of events.
create or replace function pgq._current_table(i_queue pgq.queue)
returns regclass
language plpgsql
stable
as $$
begin
    return pgq._event_table(pg_catalog.concat(i_queue.queue_data_pfx, '_', i_queue.queue_cur_table));
end;
$$;
revoke execute on function pgq._writable_queue(text) from public;
grant execute on function pgq._writable_queue(text) to pgq_admin;
revoke execute on function pgq._current_table(pgq.queue) from public;
grant execute on function pgq._current_table(pgq.queue) to pgq_admin;
