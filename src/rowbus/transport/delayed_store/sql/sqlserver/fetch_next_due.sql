-- Find the earliest message that is due at an instant (UTC) and that is not locked.
-- On SQL Server it never waits: the select walks Index_Time, passes over rows that others have locked (`readpast`) and
-- takes an update lock on the first one that is free, which lasts until the transaction ends (`updlock`, `rowlock`). On
-- Babelfish it waits for who has it. The first condition is for the index, the second is exact. Returns at most one row:
-- id, destination, time, headers, state, failures counted.
declare @at datetime2 = cast(N'$(at)' as datetime2);
declare @a_little_later datetime = dateadd(ms, 4, @at);

select top(1)
    Id as id,
    Destination as destination,
    [Time] as due,
    Headers as headers,
    State as state,
    RetryCount as retry_count
from [$(catalog)].[$(schema)].[$(store)] with (updlock, readpast, rowlock)
where [Time] <= @a_little_later and cast([Time] as datetime2) <= @at
order by [Time];
