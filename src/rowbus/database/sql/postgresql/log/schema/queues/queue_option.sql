-- Set, or with NULL unset, an option that Rowbus adds to a queue: tick_period (an interval) and max_retries.
-- Locks the row of the queue's options; returns 1.
create or replace function pgq.set_queue_option(i_queue_name text, i_option_name text, i_value text)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue int4 := pgq._option_queue(i_queue_name, i_option_name);
begin
    insert into pgq.queue_option (qo_queue) values (v_queue) on conflict (qo_queue) do nothing;
    if i_option_name = 'tick_period' then
        update pgq.queue_option set qo_tick_period = i_value::interval where qo_queue = v_queue;
    else
        update pgq.queue_option set qo_max_retries = i_value::int4 where qo_queue = v_queue;
    end if;
    return 1;
end;
$$;

-- Read such an option.
-- Locks nothing; returns its value as text, NULL when it is not set.
create or replace function pgq.get_queue_option(i_queue_name text, i_option_name text)
returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue int4 := pgq._option_queue(i_queue_name, i_option_name);
begin
    return (
        select case i_option_name when 'tick_period' then qo_tick_period::text else qo_max_retries::text end
        from pgq.queue_option
        where qo_queue = v_queue
    );
end;
$$;
