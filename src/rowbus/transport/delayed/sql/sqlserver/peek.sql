-- Look at the messages that are due next, without taking them.
-- On SQL Server `readpast` passes over what a mover has in its hands, so it never waits. Keeps no lock.
-- Returns position, due (UTC), headers and size of the body of at most `most` messages, in the order of their time.
declare @most int = N'$(most)';

select top(@most)
    RowVersion as position,
    Due as due,
    substring(Headers, 1, 1048576) as headers,
    coalesce(datalength(Body), 0) as size
from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
order by Due;
