-- List the tables that PgQ wants vacuumed often, as far as they exist: none while autovacuum is on. Locks nothing.
create or replace function pgq.maint_tables_to_vacuum()
returns setof text
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    if current_setting('autovacuum') = 'on' then
        return;
    end if;
    return query
    select wanted.name
    from unnest(array[
        'pgq.subscription', 'pgq.consumer', 'pgq.queue', 'pgq.tick', 'pgq.retry_queue',
        'pgq_ext.completed_tick', 'pgq_ext.completed_batch', 'pgq_ext.completed_event', 'pgq_ext.partial_batch',
        'pgq_node.local_state', 'londiste.seq_info', 'txid.epoch', 'londiste.completed'
    ]) with ordinality as wanted (name, place)
    where to_regclass(wanted.name) is not null
    order by wanted.place;
end
$$;
