-- Find the messages whose headers hold a text, in one of the three ways in which JSON writes it, among the `looked_at`
-- newest of the queue: the oldest first.
-- On SQL Server `readpast` passes over messages in flight, so it never waits. Keeps no lock.
-- Returns id, position and headers of at most `most`.
declare @plain nvarchar(max) = N'$(plain)';
declare @written nvarchar(max) = N'$(written)';
declare @escaped nvarchar(max) = N'$(escaped)';
declare @looked_at int = N'$(looked_at)';
declare @most int = N'$(most)';
declare @most_bytes int = N'$(most_bytes)';

select top(@most)
    lower(cast(newest.Id as char(36))) as id,
    newest.RowVersion as position,
    newest.Headers as headers
from (
    select top(@looked_at)
        Id,
        RowVersion,
        Headers
    from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
    order by RowVersion desc
) as newest
where
    datalength(newest.Headers) <= @most_bytes
    and (
        charindex(@plain, newest.Headers collate Latin1_General_BIN2) > 0
        or charindex(@written, newest.Headers collate Latin1_General_BIN2) > 0
        or charindex(@escaped, newest.Headers collate Latin1_General_BIN2) > 0
    )
order by newest.RowVersion;
