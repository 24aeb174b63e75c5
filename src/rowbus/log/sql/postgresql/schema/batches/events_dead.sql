-- Put several events of an open batch aside as dead letters, each with its reason; reads the batch once.
-- Locks nothing but the rows it writes; returns how many. Raises `batch not found`, and `event not found` if one is not
-- in the batch.
create or replace function pgq.events_dead(i_batch_id bigint, i_event_ids bigint[], i_reasons text[])
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_dead bigint[];
    v_unknown bigint[];
begin
    with buried as (
        insert into pgq.dead_letter (
            dl_queue, dl_consumer, dl_reason, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4
        )
        select
            b.queue_id, pgq._main_consumer(b.owner_id), wanted.reason, e.ev_id, e.ev_time, e.ev_txid, e.ev_retry,
            e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
        from pgq.get_batch_events(i_batch_id) as e
        inner join unnest(i_event_ids, i_reasons) as wanted (id, reason) on wanted.id = e.ev_id
        cross join pgq._open_batch(i_batch_id) as b
        order by e.ev_id
        returning ev_id
    )

    select array_agg(ev_id) into v_dead from buried;
    v_unknown := array(select unnest(i_event_ids) except select unnest(v_dead) order by 1);
    if v_unknown <> '{}' then
        raise exception 'event not found' using detail = format('Not in batch %s: %s', i_batch_id, v_unknown);
    end if;
    return coalesce(cardinality(v_dead), 0);
end;
$$;
