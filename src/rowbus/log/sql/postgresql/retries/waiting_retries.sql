-- List what a consumer's retry queue holds, for the keys that wait with it.
-- Locks nothing. Returns the seconds until each is due, then the event's columns.
select
    r.seconds,
    r.ev_id,
    r.ev_time,
    r.ev_txid,
    r.ev_retry,
    r.ev_type,
    r.ev_data,
    r.ev_extra1,
    r.ev_extra2,
    r.ev_extra3,
    r.ev_extra4
from pgq.waiting_retries(:'log'::text, :'consumer'::text) as r
