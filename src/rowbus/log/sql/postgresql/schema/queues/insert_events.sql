-- Insert many events into a queue with one statement; the same checks as insert_event(). The arrays are the columns:
-- of one length, or NULL for a column that is NULL throughout.
-- Locks nothing but the rows it writes; returns the events' numbers, in the order of the arrays.
create or replace function pgq.insert_events(
    i_queue_name text, i_types text[], i_datas text[],
    i_extra1s text[] default null, i_extra2s text[] default null,
    i_extra3s text[] default null, i_extra4s text[] default null
)
returns setof bigint
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._writable_queue(i_queue_name);
    v_count int4 := coalesce(greatest(
        cardinality(i_types), cardinality(i_datas), cardinality(i_extra1s),
        cardinality(i_extra2s), cardinality(i_extra3s), cardinality(i_extra4s)
    ), 0);
begin
    if least(
        cardinality(i_types), cardinality(i_datas), cardinality(i_extra1s),
        cardinality(i_extra2s), cardinality(i_extra3s), cardinality(i_extra4s)
    ) <> v_count then
        raise exception 'The arrays differ in length';
    end if;
    perform pgq._check_insert(v_queue, v_count);
    return query execute format(
        $insert$
        insert into %s (ev_id, ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        select nextval($1), now(), e.type, e.data, e.extra1, e.extra2, e.extra3, e.extra4
        from
            unnest($2, $3, $4, $5, $6, $7) with ordinality
                as e (type, data, extra1, extra2, extra3, extra4, number)
        where e.number <= $8
        returning ev_id
        $insert$,
        pgq._current_table(v_queue)
    )
    using
        pgq._queue_sequence(v_queue.queue_event_seq), i_types, i_datas,
        i_extra1s, i_extra2s, i_extra3s, i_extra4s, v_count;
end;
$$;
