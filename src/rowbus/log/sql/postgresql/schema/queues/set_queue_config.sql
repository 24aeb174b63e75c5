-- Set one of the settings of a queue that its users may change; the value is text, as it is written in SQL.
-- Locks the queue's row; returns 1.
-- The message for an unknown parameter ends in a stray "s", as it always has.
create or replace function pgq.set_queue_config(x_queue_name text, x_param_name text, x_param_value text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if x_queue_name is null or x_param_name is null then
        raise exception 'Invalid NULL value';
    end if;
    if not exists (select from pgq.queue where queue_name = x_queue_name) then
        raise exception 'No such event queue';
    end if;
    if x_param_name not in (
        'ticker_max_count', 'ticker_max_lag', 'ticker_idle_period', 'ticker_paused',
        'rotation_period', 'external_ticker'
    ) then
        raise exception 'cannot change parameter "%s"', x_param_name;
    end if;
    execute 'update pgq.queue set ' || quote_ident('queue_' || x_param_name)
        || ' = ' || quote_literal(x_param_value)
        || ' where queue_name = ' || quote_literal(x_queue_name);
    return 1;
end;
$$;
