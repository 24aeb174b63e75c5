-- Say whether a relation is a sequence in schema pgq. Locks nothing; returns false for NULL.
create or replace function pgq._is_queue_sequence(i_sequence regclass)
returns boolean
language sql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
    select exists (
        select from pg_class as c
        where c.oid = i_sequence and c.relkind = 'S' and c.relnamespace = 'pgq'::regnamespace
    )
$$;

-- Find the sequence of a queue by its name, as pgq.queue has it; any relation that is not one is refused: see _event_table.
-- Locks nothing; returns the sequence. Raises 42P01 if there is none, 42501 if it is something else.
create or replace function pgq._queue_sequence(i_name text)
returns regclass
language plpgsql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_sequence regclass := pgq.quote_fqname(i_name)::regclass;
begin
    if v_sequence is not null and not pgq._is_queue_sequence(v_sequence) then
        raise exception '% is not a sequence in schema pgq', i_name
            using errcode = 'insufficient_privilege', hint = 'Correct queue_tick_seq or queue_event_seq in pgq.queue.';
    end if;
    return v_sequence;
end;
$$;
revoke execute on function pgq._is_queue_sequence(regclass) from public;
grant execute on function pgq._is_queue_sequence(regclass) to pgq_admin;
revoke execute on function pgq._queue_sequence(text) from public;
grant execute on function pgq._queue_sequence(text) to pgq_admin;
