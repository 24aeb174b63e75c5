-- Look at one row without taking it. The table has no index by id, so this reads all of it.
-- On SQL Server `readpast` passes over a row in flight, so it never waits. Keeps no lock.
-- Returns id, expires (UTC), headers, body, position of at most one message, of headers and body their beginning, up to
-- `most_read` characters and bytes, and the size of a body that was cut.
declare @most_read int = N'$(most_read)';
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);

select
    lower(cast(Id as char(36))) as id,
    Expires as expires,
    substring(Headers, 1, @most_read) as headers,
    substring(Body, 1, @most_read) as body,
    RowVersion as position,
    case when datalength(Body) > @most_read then datalength(Body) end as cut_from
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
where Id = @row_id;
