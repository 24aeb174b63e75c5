-- Say where messages of the queue are, the newest first: the index by position answers it.
-- On SQL Server `readpast` passes over messages in flight, so it never waits. Keeps no lock.
-- Returns one row with the position of each, at most `most`.
declare @most int = N'$(most)';

select top(@most) RowVersion as position
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
order by RowVersion desc;
