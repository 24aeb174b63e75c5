-- Move a consumer forwards to the last tick retained that is not after a tick; never backwards, and not while it has a
-- batch open. Wants lock_hold.sql first in its transaction.
-- Locks the subscription until the transaction ends. Returns the tick it was moved to, or no row.
with target as materialized (
    select
        q.queue_name,
        c.co_name,
        t.tick_id
    from pgq.queue as q
    inner join pgq.subscription as s on q.queue_id = s.sub_queue
    inner join pgq.consumer as c on s.sub_consumer = c.co_id
    inner join pgq.tick as t on q.queue_id = t.tick_queue
    where
        q.queue_name = :'log'::text
        and c.co_name = :'consumer'::text
        and s.sub_batch is null
        and t.tick_id > s.sub_last_tick
        and t.tick_id <= :'tick'::bigint
    order by t.tick_id desc
    limit 1
)

select t.tick_id
from target as t
where pgq.register_consumer_at(t.queue_name, t.co_name, t.tick_id) is not null
