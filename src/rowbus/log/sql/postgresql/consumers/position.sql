-- Say where a consumer is.
-- Locks nothing. Returns its last finished tick, or no row when it is not registered.
select s.sub_last_tick
from pgq.queue as q
inner join pgq.subscription as s on q.queue_id = s.sub_queue
inner join pgq.consumer as c on s.sub_consumer = c.co_id
where q.queue_name = :'log'::text and c.co_name = :'consumer'::text
