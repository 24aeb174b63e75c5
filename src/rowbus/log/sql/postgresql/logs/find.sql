-- Find a log: the queue of schema pgq with that name.
-- Locks nothing. Returns its id, or no row.
select q.queue_id
from pgq.queue as q
where q.queue_name = :'log'::text
