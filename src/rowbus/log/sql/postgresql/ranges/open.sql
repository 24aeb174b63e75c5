-- Open a cursor on the events between two ticks, ordered by id; a consumer's includes its retries.
-- Locks nothing; the cursor lives until it is closed or the transaction ends. Returns nothing.
declare :"cursor" no scroll cursor for
select
    e.ev_id,
    e.ev_time,
    e.ev_txid,
    e.ev_retry,
    e.ev_type,
    e.ev_data,
    e.ev_extra1,
    e.ev_extra2,
    e.ev_extra3,
    e.ev_extra4
from
    pgq.get_range_events(
        :'log'::text, :'from_tick'::bigint, :'to_tick'::bigint, :'consumer'::text
    ) as e
