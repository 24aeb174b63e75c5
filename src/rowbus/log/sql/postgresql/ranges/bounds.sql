-- Say which ticks of a log there are.
-- Locks nothing. Returns the oldest and the newest tick, or no row when there is no such log.
select
    min(t.tick_id) as oldest,
    max(t.tick_id) as newest
from pgq.queue as q
left join pgq.tick as t on q.queue_id = t.tick_queue
where q.queue_name = :'log'::text
group by q.queue_id
