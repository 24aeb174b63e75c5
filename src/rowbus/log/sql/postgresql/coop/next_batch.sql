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
    m.events
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
        array_agg(p.bp_event) as events
    from pgq.batch_position as p
    where p.bp_batch = b.batch_id
) as m on true
where b.batch_id is not null
