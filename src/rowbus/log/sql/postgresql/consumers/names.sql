-- Find under which names a consumer is registered: its own, or those of its lanes, which begin with that and a `#`.
-- Locks nothing; returns a row for each, one of null if there is none, and no row if there is no log.
with named as (
    select
        subscription.sub_queue as queue_id,
        consumer.co_name as name
    from pgq.subscription as subscription
    inner join pgq.consumer as consumer on subscription.sub_consumer = consumer.co_id
    where consumer.co_name = :'consumer'::text or starts_with(consumer.co_name, :'consumer'::text || '#')
)

select named.name
from pgq.queue as log
left join named on log.queue_id = named.queue_id
where log.queue_name = :'log'::text
