-- Give the tables of a queue the privileges of the template they inherit from, and its sequences theirs.
-- Locks these catalogue rows; returns 1.
create or replace function pgq.grant_perms(x_queue_name text)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_schema text;
    v_table text;
begin
    select * into v_queue from pgq.queue where queue_name = x_queue_name;
    if not found then
        raise exception 'Queue not found';
    end if;
    execute format(
        'grant select on %s, %s to public',
        pgq._queue_sequence(v_queue.queue_tick_seq), pgq._queue_sequence(v_queue.queue_event_seq)
    );
    execute format('grant usage on %s to pgq_admin', pgq._queue_sequence(v_queue.queue_event_seq));
    perform pgq._event_table(v_queue.queue_data_pfx);
    v_schema := split_part(v_queue.queue_data_pfx, '.', 1);
    v_table := split_part(v_queue.queue_data_pfx, '.', 2);
    perform pgq._grant_perms_from('pgq', 'event_template', v_schema, v_table);
    for i_number in 0..v_queue.queue_ntables - 1 loop
        perform pgq._event_table(v_queue.queue_data_pfx || '_' || i_number);
        perform pgq._grant_perms_from('pgq', 'event_template', v_schema, v_table || '_' || i_number);
    end loop;
    return 1;
end;
$$;
