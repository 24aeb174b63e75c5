-- Read the headers of these rows, to send them elsewhere with others; rows never change, so they are those of the moment of
-- sending. The table has no index by id, so this reads all of it.
-- On SQL Server `readpast` passes over rows in flight, so it never waits. Keeps no lock.
-- Returns id, position, headers of each that is there and has at most `most_bytes` of them, in order.
declare @row_ids nvarchar(max) = N'$(row_ids)';
declare @most_bytes int = N'$(most_bytes)';

select
    lower(cast(Id as char(36))) as id,
    RowVersion as position,
    Headers as headers
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where
    Id in (select cast(value as uniqueidentifier) from string_split(@row_ids, N','))
    and datalength(Headers) <= @most_bytes
order by RowVersion;
