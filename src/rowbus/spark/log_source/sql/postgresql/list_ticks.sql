-- List a log's ticks after one, up to another, in order.
-- Locks nothing. Returns up to `most` rows: id, snapshot, sequence, time.
select
    t.tick_id,
    t.tick_snapshot::text as snapshot,
    t.tick_event_seq,
    to_char(t.tick_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
from pgq.queue as q
inner join pgq.tick as t on q.queue_id = t.tick_queue
where q.queue_name = :'log'::text and t.tick_id > :'after'::bigint and t.tick_id <= :'upto'::bigint
order by t.tick_id
limit :'most'::bigint
