-- Find the newest tick of a log that is not after a time.
-- Locks nothing. Returns its id, or no row.
select t.tick_id
from pgq.queue as q
inner join pgq.tick as t on q.queue_id = t.tick_queue
where q.queue_name = :'log'::text and t.tick_time <= :'time'::timestamptz
order by t.tick_id desc
limit 1
