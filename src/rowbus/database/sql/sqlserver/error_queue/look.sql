-- Look at one row without taking it. The table has no index by id, so this reads all of it.
-- On SQL Server `readpast` passes over a row in somebody's hands, so it never waits. Keeps no lock.
-- Returns id, expires (UTC), headers, body, position of at most one message.
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);

select
    lower(cast(Id as char(36))) as id,
    Expires as expires,
    Headers as headers,
    Body as body,
    RowVersion as position
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where Id = @row_id;
