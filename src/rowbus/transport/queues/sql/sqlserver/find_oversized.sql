-- Find the messages above `most_bytes` among the oldest `most`: those that receives leave where they are.
-- On SQL Server `readpast` passes over messages in a receiver's hands, so it never waits. Keeps no lock.
-- Returns id, position, the first characters of the headers, and the size of headers and body, oldest first.
declare @most int = N'$(most)';
declare @most_bytes bigint = N'$(most_bytes)';
declare @most_characters int = N'$(most_characters)';

select
    lower(cast(Id as char(36))) as id,
    RowVersion as position,
    substring(Headers, 1, @most_characters) as headers,
    datalength(Headers) + coalesce(datalength(Body), 0) as size
from (
    select top(@most)
        Id,
        RowVersion,
        Headers,
        Body
    from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
    order by RowVersion
) as oldest
where datalength(Headers) + coalesce(datalength(Body), 0) > @most_bytes
order by RowVersion;
