-- Look at the messages of a store that are due next, without taking them.
-- On SQL Server `readpast` passes over what a poller is removing, so it never waits. Keeps no lock.
-- Returns id, due time (UTC), destination, headers, size of the body and failures counted of at most `most` messages, in
-- the order of their time.
declare @most int = N'$(most)';

select top(@most)
    Id as id,
    [Time] as due,
    Destination as destination,
    substring(Headers, 1, 1048576) as headers,
    coalesce(datalength(State), 0) as size,
    RetryCount as failures
from [$(catalog)].[$(schema)].[$(store)] with (readpast)
order by [Time];
