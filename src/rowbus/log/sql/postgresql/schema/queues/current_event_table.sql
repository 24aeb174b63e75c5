-- Name the table that events are inserted into at present, for COPY and bulk inserts; valid in this transaction only.
-- Locks nothing (but see _await_rotation); returns the name, qualified.
create or replace function pgq.current_event_table(x_queue_name text)
returns text
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_table text;
    v_disabled boolean;
begin
    perform pgq._await_rotation(x_queue_name);
    select pg_catalog.concat(q.queue_data_pfx, '_', q.queue_cur_table), q.queue_disable_insert
    into v_table, v_disabled
    from pgq.queue as q
    where q.queue_name operator(pg_catalog.=) x_queue_name;
    if not found then
        raise exception 'Event queue not found';
    end if;
    if v_disabled and pg_catalog.current_setting('session_replication_role') operator(pg_catalog.<>) 'replica' then
        raise exception 'Writing to queue disabled';
    end if;
    perform pgq._event_table(v_table);
    return v_table;
end;
$$;
