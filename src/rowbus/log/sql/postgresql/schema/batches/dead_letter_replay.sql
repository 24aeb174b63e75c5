-- Have dead letters of a consumer delivered to it again, soon and as if never retried: all, or those of these dl_ids.
-- Locks the rows it moves; returns how many. Raises `consumer not registered`.
create or replace function pgq.dead_letter_replay(
    i_queue_name text, i_consumer_name text, i_ids bigint[] default null
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_sub pgq.subscription;
    v_moved integer;
begin
    select s.*
    into v_sub
    from pgq.queue as q
    join pgq.subscription as s on s.sub_queue = q.queue_id
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = i_queue_name and c.co_name = i_consumer_name;
    if not found then
        raise exception 'consumer not registered';
    end if;
    with taken as (
        delete from pgq.dead_letter as d
        where d.dl_queue = v_sub.sub_queue and d.dl_consumer = v_sub.sub_consumer and (i_ids is null or d.dl_id = any(i_ids))
        returning d.*
    ),

    put_back as (
        insert into pgq.retry_queue (
            ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4
        )
        select
            now(), t.dl_queue, t.ev_id, t.ev_time, v_sub.sub_id, t.ev_type, t.ev_data,
            t.ev_extra1, t.ev_extra2, t.ev_extra3, t.ev_extra4
        from taken as t
        on conflict (ev_owner, ev_id) do nothing -- it waits to be delivered already
    )

    select count(*)::integer into v_moved from taken;
    return v_moved;
end;
$$;
