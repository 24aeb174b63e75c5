-- Write the query for the events of an open batch.
-- Locks nothing; returns the text.
create or replace function pgq.batch_event_sql(x_batch_id bigint)
returns text
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    b record;
    v_sql text;
begin
    select o.* into b from pgq._open_batch(x_batch_id) as o;
    if b.queue_id is null then
        raise exception 'batch not found';
    end if;
    v_sql := pgq._range_sql(b.queue_id, b.last_tick, b.next_tick, b.owner_id);
    if v_sql is null then
        raise exception 'could not construct sql for batch %', x_batch_id;
    end if;
    return v_sql;
end;
$$;
