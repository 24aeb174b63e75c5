-- Drop the log of an earlier run, with its consumers, if there is one.
-- Locks its row and its tables; returns a row if there was one.
select pgq.drop_queue(queue_name, true) as dropped
from pgq.queue
where queue_name = :'log'::text
