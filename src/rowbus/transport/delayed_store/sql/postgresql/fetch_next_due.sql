-- Find the earliest message that is due at an instant and that is not locked.
-- Locks its row until the transaction ends and passes over locked ones, so it never waits.
-- Returns at most one row: id, destination, time, headers, state, retry_count.
select
    delayed.id,
    delayed.destination,
    least(greatest(delayed.time, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as time,
    delayed.headers,
    delayed.state,
    delayed.retry_count
from :"schema".:"store" as delayed
where delayed.time <= :'at'::timestamptz
order by delayed.time, delayed.id
limit 1
for update skip locked
