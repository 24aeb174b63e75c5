-- Tell which data tables hold the events of an open batch.
-- Locks nothing; returns their names, the older one first.
create or replace function pgq.batch_event_tables(x_batch_id bigint)
returns setof text
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
begin
    return query
    select t.name
    from pgq._open_batch(x_batch_id) as b, pgq._range_tables(b.queue_id, b.last_tick, b.next_tick) as t (name);
    if not found then
        raise exception 'Cannot find data for batch %', x_batch_id;
    end if;
end;
$$;
