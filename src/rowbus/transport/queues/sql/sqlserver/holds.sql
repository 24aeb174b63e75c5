-- Say whether one row is in the queue.
-- On SQL Server `readpast` passes over a row in flight, so it never waits and says no; where the database reads
-- versions it says yes. Keeps no lock. Returns one row with 1 or 0.
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);

select count(*) as is_there
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where Id = @row_id;
