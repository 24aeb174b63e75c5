-- Name the sequence that counts the events of a transaction for a queue with a limit (see _count_events), and create it
-- if it is missing. Of two that create it at once the second waits for the first, and then has what that one made.
-- Locks what it creates; returns the name.
create or replace function pgq._limit_sequence(i_queue_id int4)
returns text
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_name text := format('pgq.event_%s_limit_seq', i_queue_id);
begin
    if to_regclass(v_name) is null then
        begin
            execute format('create sequence %s minvalue 0', v_name);
        exception
            when unique_violation or duplicate_table then null;
        end;
    end if;
    return v_name;
end;
$$;
revoke execute on function pgq._limit_sequence(int4) from public;
