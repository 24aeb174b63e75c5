-- Find a message in the queue that nobody has in hand and that is not expired, and keep it there until the transaction ends;
-- receivers pass over it meanwhile, and are woken at the commit.
-- Locks the row and passes over one in flight, so it never waits. Returns a row when it is there.
select
    waiting.id::text as row_id,
    pg_notify(:'channel', '') as notified
from :"schema".:"queue" as waiting
where
    waiting.id = :'row_id'::uuid
    and (waiting.expires is null or waiting.expires > (clock_timestamp() at time zone 'UTC'))
for update skip locked
