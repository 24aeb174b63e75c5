-- List a log's ticks after one of them, the oldest first.
-- Locks nothing. Returns up to `most` rows: id, time, event sequence.
select
    t.tick_id,
    t.tick_time,
    t.tick_event_seq
from pgq.queue as q
inner join pgq.tick as t on q.queue_id = t.tick_queue
where q.queue_name = :'log'::text and t.tick_id > :'after'::bigint
order by t.tick_id
limit :'most'::bigint
