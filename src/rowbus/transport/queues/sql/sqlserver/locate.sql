-- Look for one message by its id: its headers may have changed and its position with them.
-- On SQL Server `readpast` passes over a row in flight, so it never waits and finds nothing then. Keeps no lock. Returns at
-- most one row: headers, position.
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);

select
    Headers as headers,
    RowVersion as position
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where Id = @row_id;
