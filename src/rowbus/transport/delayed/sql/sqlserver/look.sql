-- Look at one message without taking it. The time, that of the message widened by what its text loses, makes it seek in
-- Index_Due.
-- On SQL Server `readpast` passes over what a mover has in its hands, so it never waits. Keeps no lock.
-- Returns position, due (UTC), headers, the first `most_bytes` bytes of the body and the size of all of it, or no row.
declare @position bigint = N'$(position)';
declare @due datetime2 = cast(N'$(due)' as datetime2);
declare @first_due datetime = dateadd(ms, -4, @due);
declare @last_due datetime = dateadd(ms, 4, @due);
declare @most_bytes int = N'$(most_bytes)';

select
    RowVersion as position,
    cast(Due as datetime2) as due,
    substring(Headers, 1, 1048576) as headers,
    substring(Body, 1, @most_bytes) as body,
    coalesce(datalength(Body), 0) as size
from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
where Due between @first_due and @last_due and RowVersion = @position;
