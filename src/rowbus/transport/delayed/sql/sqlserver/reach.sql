-- Say where a search ends that reads `most_read` messages from behind a place, in the order of their time.
-- On SQL Server `readpast` passes over what a mover has in its hands, so it never waits. Keeps no lock.
-- Returns one row, position and due (UTC); no row when there are not so many.
declare @after_due datetime = cast(nullif(N'$(after_due)', N'') as datetime2);
declare @after_position bigint = cast(nullif(N'$(after_position)', N'') as bigint);
declare @most_read int = N'$(most_read)';

select
    RowVersion as position,
    cast(Due as datetime2) as due
from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
where @after_due is null or Due > @after_due or (Due = @after_due and RowVersion > @after_position)
order by Due, RowVersion
offset @most_read - 1 rows fetch next 1 rows only;
