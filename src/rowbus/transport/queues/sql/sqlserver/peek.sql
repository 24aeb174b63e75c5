-- Look at the oldest messages without taking them.
-- On SQL Server `readpast` passes over messages in a receiver's hands, whose rows are locked, so it never waits; where the
-- database reads versions (READ_COMMITTED_SNAPSHOT, Babelfish) it shows those as well. Keeps no lock.
-- Returns id, expires (UTC), headers, body, position of at most `most` messages, oldest first, of headers and body their
-- beginning, up to `most_read` characters and bytes, and the size of a body that was cut.
declare @most_read int = N'$(most_read)';
declare @most int = N'$(most)';

select top(@most)
    lower(cast(Id as char(36))) as id,
    Expires as expires,
    substring(Headers, 1, @most_read) as headers,
    substring(Body, 1, @most_read) as body,
    RowVersion as position,
    case when datalength(Body) > @most_read then datalength(Body) end as cut_from
from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
order by RowVersion;
