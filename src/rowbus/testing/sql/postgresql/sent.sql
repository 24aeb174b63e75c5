-- List what was sent after a position, in the order in which it was written.
-- Locks nothing; returns a row each: position, place, headers, body, due.
select
    noted.position,
    noted.place,
    noted.headers,
    coalesce(noted.body, ''::bytea) as body,
    noted.due
from rowbus_testing.sent as noted
where noted.position > :'after'::bigint
order by noted.position
