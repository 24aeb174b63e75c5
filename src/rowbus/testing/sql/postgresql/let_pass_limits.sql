-- Let time pass for an endpoint's rate limits: their tokens come so much earlier, and so do the turns of what was deferred.
-- Locks all rows of the table, waiting for those who take tokens; returns nothing.
update :"schema".:"limits"
set
    arrival = arrival - :'time'::interval,
    next_waited = next_waited - :'time'::interval,
    next_fresh = next_fresh - :'time'::interval
