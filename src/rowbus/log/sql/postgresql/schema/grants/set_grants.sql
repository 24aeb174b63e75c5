-- Set who may use schema pgq. 'old': PUBLIC may execute every function and read the tables, which is what a
-- plain PgQ has. 'new': readers, writers and administrators (pgq_reader, pgq_writer, pgq_admin) each what they need,
-- PUBLIC only information.
-- Locks catalogue rows; returns 1.
create or replace function pgq.set_grants(i_style text)
returns int
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if i_style is null or i_style not in ('old', 'new') then
        raise exception 'no such style of grants: %; there are old and new', coalesce(i_style, 'NULL');
    end if;
    perform pgq._grant_functions(i_style);
    revoke all on pgq.event_template, pgq.consumer, pgq.queue, pgq.tick, pgq.subscription, pgq.retry_queue
    from public, pgq_reader, pgq_writer, pgq_admin;
    grant usage on schema pgq to public;
    grant select on pgq.consumer, pgq.queue, pgq.tick, pgq.subscription to public;
    if i_style = 'old' then
        grant select on pgq.event_template, pgq.retry_queue to public;
    else
        grant select on pgq.consumer, pgq.queue, pgq.tick, pgq.subscription, pgq.event_template to pgq_reader;
        grant select, insert, update, delete on
        pgq.consumer, pgq.queue, pgq.tick, pgq.subscription, pgq.retry_queue to pgq_admin;
        grant select, insert, truncate on pgq.event_template to pgq_admin;
    end if;
    perform pgq._grant_rowbus_tables(i_style);
    perform pgq._grant_event_tables();
    return 1;
end;
$$;
revoke execute on function pgq.set_grants(text) from public;
