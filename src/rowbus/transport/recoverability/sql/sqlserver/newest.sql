-- Say up to which position the queue is filled, so that what comes later is left out of what follows.
-- On SQL Server `readpast` passes over messages in flight, so it never waits. Keeps no lock. Returns one row with
-- one number, null for an empty queue.
select max(RowVersion) as newest
from [$(catalog)].[$(schema)].[$(queue)] with (readpast);
