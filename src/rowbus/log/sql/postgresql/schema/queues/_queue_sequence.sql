-- Say whether a relation is a sequence in schema pgq. Locks nothing; returns false for NULL.
-- On the ticker's path: every name is qualified, because `set search_path` costs at each call.
create or replace function pgq._is_queue_sequence(i_sequence regclass)
returns boolean
language plpgsql
stable
as $$
begin
    return exists (
        select from pg_catalog.pg_class as c
        where c.oid operator(pg_catalog.=) i_sequence
            and c.relkind operator(pg_catalog.=) 'S'
            and c.relnamespace operator(pg_catalog.=) 'pgq'::pg_catalog.regnamespace
    );
end;
$$;

-- Find the sequence of a queue by its name in pgq.queue. Refuse any relation that is not such a sequence: administrators
-- of the log may write that name (see _event_table). Qualified for the ticker's path, too.
-- Locks nothing; returns the sequence. Raises 42P01 if there is none, 42501 if it is something else.
create or replace function pgq._queue_sequence(i_name text)
returns regclass
language plpgsql
stable
as $$
declare
    v_sequence pg_catalog.regclass := pgq.quote_fqname(i_name)::pg_catalog.regclass;
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
