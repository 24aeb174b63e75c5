-- Read the stories of the messages at these positions.
-- On SQL Server `readpast` passes over messages in flight, so it never waits. Keeps no lock.
-- Returns id, position and headers of each that is still there; of headers above `most_bytes` not the text but their size,
-- which is null for the others.
declare @positions nvarchar(max) = N'$(positions)';
declare @most_bytes int = N'$(most_bytes)';

select
    lower(cast(Id as char(36))) as id,
    RowVersion as position,
    case when datalength(Headers) <= @most_bytes then Headers end as headers,
    case when datalength(Headers) > @most_bytes then datalength(Headers) end as size
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where RowVersion in (select cast(value as bigint) from string_split(@positions, N','));
