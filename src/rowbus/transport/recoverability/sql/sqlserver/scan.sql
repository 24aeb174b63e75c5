-- Read the stories of the next messages of a walk through the queue.
-- On SQL Server `readpast` passes over messages in flight, so it never waits. Keeps no lock.
-- Returns id, position and headers of at most `most` messages after one position and up to another, in order; of headers
-- above `most_bytes` not the text but their size, which is null for the others.
declare @after bigint = N'$(after)';
declare @newest bigint = N'$(newest)';
declare @most int = N'$(most)';
declare @most_bytes int = N'$(most_bytes)';

select top(@most)
    lower(cast(Id as char(36))) as id,
    RowVersion as position,
    case when datalength(Headers) <= @most_bytes then Headers end as headers,
    case when datalength(Headers) > @most_bytes then datalength(Headers) end as size
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where RowVersion > @after and RowVersion <= @newest
order by RowVersion;
