-- List the schedules of an endpoint, by name, with the tick that each waits for and the last one that was sent.
-- Locks nothing; returns a row each: name, schedule, next_due, last_sent, and the database's time.
select
    known.name,
    known.schedule,
    known.next_due,
    known.last_sent,
    clock_timestamp() as at
from :"schema".:"recurring" as known
order by known.name
