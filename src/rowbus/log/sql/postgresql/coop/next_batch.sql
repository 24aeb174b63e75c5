-- Take the next batch for a subconsumer, or that of another one that has shown no sign of life.
-- Locks the consumer's row until the transaction ends. Returns what batches/next_batch.sql returns.
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
    exists(
        select
        from pgq.subscription as s
        where s.sub_batch is not null
            and s.sub_last_tick = b.prev_tick_id
            and s.sub_next_tick = b.cur_tick_id
            and s.sub_id in (
                select main.sub_id
                from pgq.queue as q
                inner join pgq.consumer as c on c.co_name = :'consumer'::text
                inner join pgq.subscription as main
                    on q.queue_id = main.sub_queue and c.co_id = main.sub_consumer
                where q.queue_name = :'log'::text
            )
    ) as was_open
from
    pgq_coop.next_batch_info(
        :'log'::text,
        :'consumer'::text,
        :'subconsumer'::text,
        :'min_lag'::interval,
        :'min_count'::int4,
        :'min_interval'::interval,
        :'dead_after'::interval
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
