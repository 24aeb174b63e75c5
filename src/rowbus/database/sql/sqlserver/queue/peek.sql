-- Look at the oldest messages without taking them.
-- On SQL Server `readpast` passes over messages in a receiver's hands, whose rows are locked, so it never waits; where the
-- database reads versions (READ_COMMITTED_SNAPSHOT, Babelfish) it shows those as well. Keeps no lock.
-- Returns id, expires (UTC), headers, body, position of at most `most` messages, oldest first.
declare @most int = N'$(most)';

select top(@most)
    lower(cast(Id as char(36))) as id,
    Expires as expires,
    Headers as headers,
    Body as body,
    RowVersion as position
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
order by RowVersion;
