-- Count the events between two ticks that every consumer is given, up to `most`.
-- Locks nothing. Returns one row with one number.
select count(*)::integer as found
from (
    select event.ev_id
    from pgq.get_range_events(:'log'::text, :'from_tick'::bigint, :'to_tick'::bigint, null) as event
    order by event.ev_id
    limit :'most'::integer
) as counted
