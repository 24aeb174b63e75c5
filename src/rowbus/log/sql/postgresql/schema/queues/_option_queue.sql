-- Find the queue whose option is asked for, and check that there is such an option.
-- Locks nothing; returns the queue's number.
create or replace function pgq._option_queue(i_queue_name text, i_option_name text)
returns int4
language plpgsql
stable
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue int4;
begin
    if i_queue_name is null or i_option_name is null then
        raise exception 'Invalid NULL value';
    end if;
    if i_option_name not in ('tick_period', 'max_retries', 'ordered_ticks') then
        raise exception 'no such option: %; there are tick_period, max_retries and ordered_ticks', i_option_name;
    end if;
    select queue_id into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        raise exception 'No such event queue';
    end if;
    return v_queue;
end;
$$;
revoke execute on function pgq._option_queue(text, text) from public;
