-- Read what a text may be in, of the messages at these positions: T-SQL does not look for bytes in bytes.
-- On SQL Server `readpast` passes over messages in flight, so it never waits. Keeps no lock.
-- Returns position, headers and body of each that is still there; no body above `most_bytes`.
declare @positions nvarchar(max) = N'$(positions)';
declare @most_bytes int = N'$(most_bytes)';

select
    RowVersion as position,
    substring(Headers, 1, @most_bytes) as headers,
    case when datalength(Body) <= @most_bytes then Body end as body
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where RowVersion in (select cast(value as bigint) from string_split(@positions, N','));
