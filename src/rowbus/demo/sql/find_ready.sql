-- Find the endpoints that wait for messages: they have a connection which has done nothing for 50 ms.
-- Locks nothing; returns one row for each, its connections' name.
select distinct sessions.application_name
from pg_stat_activity as sessions
where
    sessions.datname = current_database()
    and sessions.application_name = any(:'names'::text[])
    and sessions.state = 'idle'
    and sessions.state_change < clock_timestamp() - interval '50 milliseconds'
