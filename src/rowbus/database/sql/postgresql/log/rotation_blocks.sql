-- List the logs whose tables could not be rotated when it was time, and why. Locks nothing.
-- Returns the log's name, since when, the reason and its detail.
select
    q.queue_name,
    b.rb_since,
    b.rb_reason,
    b.rb_detail
from pgq.rotation_block as b
inner join pgq.queue as q on b.rb_queue = q.queue_id
order by q.queue_name
