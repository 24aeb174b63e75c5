-- Read the stories of the next messages of a walk through the queue.
-- On SQL Server `readpast` passes over messages in somebody's hands, so it never waits. Keeps no lock.
-- Returns id, position and headers of at most `most` messages after one position and up to another, in order.
declare @after bigint = N'$(after)';
declare @newest bigint = N'$(newest)';
declare @most int = N'$(most)';

select top(@most)
    lower(cast(Id as char(36))) as id,
    RowVersion as position,
    Headers as headers
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where RowVersion > @after and RowVersion <= @newest
order by RowVersion;
