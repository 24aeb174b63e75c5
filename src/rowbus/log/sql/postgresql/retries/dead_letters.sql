-- List a consumer's dead letters behind one of them, the oldest first.
-- Locks nothing. Returns up to `most` rows: id, time when the consumer gave up, reason, then the event's columns.
select
    d.dl_id,
    d.dl_time,
    d.dl_reason,
    d.ev_id,
    d.ev_time,
    d.ev_txid,
    d.ev_retry,
    d.ev_type,
    d.ev_data,
    d.ev_extra1,
    d.ev_extra2,
    d.ev_extra3,
    d.ev_extra4
from pgq.dead_letter as d
inner join pgq.queue as q on d.dl_queue = q.queue_id
inner join pgq.consumer as c on d.dl_consumer = c.co_id
where q.queue_name = :'log'::text and c.co_name = :'consumer'::text and d.dl_id > :'after'::bigint
order by d.dl_id
limit :'most'::bigint
