-- Create the sequences of a new queue, the parent of its event tables, and these, each with its one index.
-- Locks what it creates, and the parents; returns nothing.
create or replace function pgq._create_event_tables(i_queue_id int4)
returns void
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_table text;
begin
    select * into strict v_queue from pgq.queue where queue_id = i_queue_id;
    execute format('create sequence %s', pgq.quote_fqname(v_queue.queue_tick_seq));
    execute format('create sequence %s', pgq.quote_fqname(v_queue.queue_event_seq));
    execute format(
        'create table %s () inherits (pgq.event_template)', pgq.quote_fqname(v_queue.queue_data_pfx)
    );
    for i_number in 0..v_queue.queue_ntables - 1 loop
        v_table := v_queue.queue_data_pfx || '_' || i_number;
        execute format(
            'create table %s () inherits (%s)',
            pgq.quote_fqname(v_table), pgq.quote_fqname(v_queue.queue_data_pfx)
        );
        execute format(
            'alter table %s alter column ev_id set default nextval(%L)',
            pgq.quote_fqname(v_table), v_queue.queue_event_seq
        );
        execute format(
            'create index %I on %s (ev_txid)',
            split_part(v_table, '.', 2) || '_txid_idx', pgq.quote_fqname(v_table)
        );
    end loop;
end;
$$;
revoke execute on function pgq._create_event_tables(int4) from public;
