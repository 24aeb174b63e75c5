-- Move a registered consumer to a tick; a batch in its hands is taken from it and cannot be finished any more.
-- Locks the consumer's row. Returns the number of consumers moved: 1, or 0 when it is not registered.
select pgq.register_consumer_at(q.queue_name, c.co_name, :'tick'::bigint) as moved
from pgq.queue as q
inner join pgq.subscription as s on q.queue_id = s.sub_queue
inner join pgq.consumer as c on s.sub_consumer = c.co_id
where q.queue_name = :'log'::text and c.co_name = :'consumer'::text
