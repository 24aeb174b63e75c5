-- Say how many messages wait in a queue in nobody's hands, counting up to `most`, and show the headers of the oldest.
-- On SQL Server `readpast` passes over rows in somebody's hands, so it never waits; how many those are it cannot say. Keeps
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
