-- Find the consumer of which another is a subconsumer: its name is how the subconsumer's begins.
-- Locks nothing. Returns its name, or no row.
select main.co_name
from pgq.queue as q
inner join pgq.consumer as member on member.co_name = :'consumer'::text
inner join pgq.subscription as s on q.queue_id = s.sub_queue and member.co_id = s.sub_consumer
inner join pgq.subscription as m on q.queue_id = m.sub_queue and s.sub_id = m.sub_id
inner join pgq.consumer as main on m.sub_consumer = main.co_id
where q.queue_name = :'log'::text and starts_with(member.co_name, main.co_name || '.')
