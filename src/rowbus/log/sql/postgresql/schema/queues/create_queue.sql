-- Create a queue, its tables and its sequences, and tick it once, so that consumers have a place to start from.
-- Waits for others who create or drop queues, until the end of the transaction.
-- Returns 1, or 0 when there is one of that name. Any text is a name: the objects are named by number.
create or replace function pgq.create_queue(i_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_id int4;
begin
    if i_queue_name is null then
        raise exception 'Invalid NULL value';
    end if;
    if exists (select from pgq.queue where queue_name = i_queue_name) then
        return 0;
    end if;
    perform pgq._lock_definitions();
    if exists (select from pgq.queue where queue_name = i_queue_name) then
        return 0;
    end if;
    v_id := nextval('pgq.queue_queue_id_seq');
    insert into pgq.queue (queue_id, queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq)
    values (
        v_id,
        i_queue_name,
        format('pgq.event_%s', v_id),
        format('pgq.event_%s_id_seq', v_id),
        format('pgq.event_%s_tick_seq', v_id)
    );
    perform pgq._create_event_tables(v_id);
    perform pgq.grant_perms(i_queue_name);
    perform pgq.ticker(i_queue_name);
    perform pgq.tune_storage(i_queue_name);
    perform pgq._generate_insert(v_id);
    perform pgq._generate_dispatch();
    return 1;
end;
$$;
