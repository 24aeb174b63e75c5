-- Count the delayed messages of a table, up to `most`, and those of them that are overdue; say when the first is due.
-- On SQL Server `readpast` passes over what a mover has in its hands, so it never waits. Keeps no lock.
-- Returns one row: waiting, overdue, next due (null: none), and the database's time.
declare @most int = N'$(most)';
declare @now datetime = sysutcdatetime();

select
    count(*) as waiting,
    coalesce(sum(case when soonest.Due <= @now then 1 else 0 end), 0) as overdue,
    min(soonest.Due) as next_due,
    @now as at
from (
    select top(@most) Due
    from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
    order by Due
) as soonest;
