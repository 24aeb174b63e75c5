-- Take hold of due messages as take_due.sql does, but for those that are passed over: what became due before `moment`
-- (UTC), and those at these positions, which became due at that moment, give or take the ten milliseconds that `datetime`
-- and texts round by. Locks as take_due.sql: on SQL Server it never waits for other movers (`readpast`). Returns position,
-- due, headers of at most `batch_size` messages, in the order in which they became due; of those due at the same time in
-- any order (the caller sorts).
declare @batch_size int = N'$(batch_size)';
declare @positions nvarchar(max) = N'$(positions)';
declare @now datetime = dateadd(ms, -2, sysutcdatetime());
declare @moment datetime2 = cast(N'$(moment)' as datetime2);
declare @from datetime = dateadd(ms, -10, @moment);

select top(@batch_size)
    RowVersion as position,
    Due as due,
    substring(Headers, 1, 1048576) as headers
from [$(catalog)].[$(schema)].[$(delayed)] with (updlock, readpast, rowlock)
where
    Due <= @now
    and Due >= @from
    and RowVersion not in (select cast(value as bigint) from string_split(@positions, N','))
order by Due;
