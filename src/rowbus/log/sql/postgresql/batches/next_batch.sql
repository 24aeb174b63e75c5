-- Take the consumer's next batch, or read the one it holds, with the marks of its parts.
-- Locks the subscription's row when there is something to take; nothing is written when there is not.
-- Returns no row, or the batch: id, ticks and their times, its marks (parts, part, event, and what was begun after it:
-- tried, losses) as five arrays, and whether it was in hand before this statement, whose snapshot knows.
select
    b.batch_id,
    b.prev_tick_id,
    b.cur_tick_id,
    b.prev_tick_time,
    b.cur_tick_time,
    m.parts,
    m.part,
    m.events,
    m.tried,
    m.losses,
    exists(select from pgq.subscription as s where s.sub_batch = b.batch_id) as was_open
from
    pgq.next_batch_custom(
        :'log'::text, :'consumer'::text, :'min_lag'::interval, :'min_count'::int4, :'min_interval'::interval
    ) as b
left join lateral (
    select
        array_agg(p.bp_parts) as parts,
        array_agg(p.bp_part) as part,
        array_agg(p.bp_event) as events,
        array_agg(p.bp_tried) as tried,
        array_agg(p.bp_losses) as losses
    from pgq.batch_position as p
    where p.bp_batch = b.batch_id
) as m on true
where b.batch_id is not null
    and not exists (
        select
        from pgq.queue as q
        inner join pgq.consumer as c on c.co_name = :'consumer'::text
        inner join pgq.subscription as s on q.queue_id = s.sub_queue and c.co_id = s.sub_consumer
        where q.queue_name = :'log'::text
            and s.sub_batch is null
            and not exists (
                select
                from pgq.tick as t
                where t.tick_queue = q.queue_id and t.tick_id > s.sub_last_tick
            )
    )
