-- Find under which names a consumer is registered: its own, or those of its lanes, which begin with that and a `#`.
-- Locks nothing; returns a row for each.
select consumer.co_name as name
from pgq.queue as log
inner join pgq.subscription as subscription on log.queue_id = subscription.sub_queue
inner join pgq.consumer as consumer on subscription.sub_consumer = consumer.co_id
where
    log.queue_name = :'log'::text
    and (consumer.co_name = :'consumer'::text or starts_with(consumer.co_name, :'consumer'::text || '#'))
