-- Find the newest tick of a log that is not after a time.
-- Locks nothing. Returns id, snapshot, sequence and time, or no row.
select
    t.tick_id,
    t.tick_snapshot::text as snapshot,
    t.tick_event_seq,
    to_char(t.tick_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
from pgq.queue as q
inner join pgq.tick as t on q.queue_id = t.tick_queue
where q.queue_name = :'log'::text and t.tick_time <= :'time'::timestamptz
order by t.tick_id desc
limit 1
