-- Set, or with NULL unset, an option that Rowbus adds to a queue: tick_period (an interval), max_retries, and
-- ordered_ticks (a boolean: whether ticks from elsewhere must come in the order of their ids).
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
    execute format(
        'update pgq.queue_option set %I = %L where qo_queue = %s', 'qo_' || i_option_name, i_value, v_queue
    );
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
    v_value text;
begin
    execute format(
        'select %I::text from pgq.queue_option where qo_queue = %s', 'qo_' || i_option_name, v_queue
    )
    into v_value;
    return v_value;
end;
$$;
