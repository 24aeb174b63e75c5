-- Say in how many seconds the next message can be taken, as next_due.sql does, but for those that are passed over: what
-- became due before `moment` (UTC), and those at these positions.
-- On SQL Server `readpast` passes over what another mover has in its hands, so it never waits. Keeps no lock.
-- Returns one row with one number, no row when there is no other message.
declare @positions nvarchar(max) = N'$(positions)';
declare @moment datetime2 = cast(N'$(moment)' as datetime2);
declare @from datetime = dateadd(ms, -10, @moment);

select top(1) cast(datediff_big(ms, cast(sysutcdatetime() as datetime), Due) + 5 as float) / 1000 as seconds
from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
where
    Due >= @from
    and RowVersion not in (select cast(value as bigint) from string_split(@positions, N','))
order by Due;
