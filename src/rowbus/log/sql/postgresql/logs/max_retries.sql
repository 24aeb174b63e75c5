-- Ask for a log's option max_retries.
-- Locks nothing. Returns the number; NULL or no row when it is not set.
select o.qo_max_retries
from pgq.queue as q
inner join pgq.queue_option as o on q.queue_id = o.qo_queue
where q.queue_name = :'log'::text
