-- Put events of an open batch into the retry queue, each with the time when it is due; `i_counts` counts it as a retry.
-- With the events' transactions, if they are given, the index finds them in a batch of any size; the batch is read
-- once.
-- Locks their places in the retry queue; returns how many were put there: not those that wait there already.
-- Raises `batch not found`, and `event not found` if one is not in the batch.
create or replace function pgq._put_back(
    i_batch_id bigint,
    i_event_ids bigint[],
    i_due timestamptz[],
    i_counts boolean,
    i_txids bigint[] default null
)
returns integer
language plpgsql
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_queued integer;
    v_unknown bigint[];
begin
    execute
        'with found as materialized ('
        '    select e.*, wanted.due'
        '    from (' || pgq.batch_event_sql(i_batch_id) || ') as e'
        '    inner join unnest($2, $3) as wanted (id, due) on wanted.id = e.ev_id'
        '    where $5 is null or e.ev_txid = any($5)'
        '), queued as ('
        '    insert into pgq.retry_queue ('
        '        ev_retry_after, ev_queue, ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data,'
        '        ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        '    )'
        '    select f.due, b.queue_id, f.ev_id, f.ev_time, null, b.owner_id,'
        '        case when $4 then coalesce(f.ev_retry, 0) + 1 else f.ev_retry end, f.ev_type, f.ev_data,'
        '        f.ev_extra1, f.ev_extra2, f.ev_extra3, f.ev_extra4'
        '    from found as f cross join pgq._open_batch($1) as b'
        '    on conflict (ev_owner, ev_id) do nothing'
        '    returning ev_id'
        ') '
        'select (select count(*) from queued), array(select unnest($2) except select ev_id from found order by 1)'
    into v_queued, v_unknown
    using i_batch_id, i_event_ids, i_due, i_counts, i_txids;
    if v_unknown <> '{}' then
        raise exception 'event not found' using detail = format('Not in batch %s: %s', i_batch_id, v_unknown);
    end if;
    return v_queued;
end;
$$;
revoke execute on function pgq._put_back(bigint, bigint[], timestamptz[], boolean, bigint[]) from public;
