-- Say how many messages of a queue are not in flight, counting up to `most`, and show the headers of the oldest.
-- On SQL Server `readpast` passes over rows in flight, so it never waits; how many those are it cannot say. Keeps
-- no lock. Returns one row: depth, oldest headers (null: none), and the database's time.
declare @most int = N'$(most)';

select
    count(*) as depth,
    (
        select top(1) substring(Headers, 1, 65536)
        from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
        order by RowVersion
    ) as oldest_headers,
    cast(sysutcdatetime() as datetime) as at
from (
    select top(@most) RowVersion
    from [$(catalog)].[$(schema)].[$(queue)] with (readpast)
    order by RowVersion
) as waiting;
