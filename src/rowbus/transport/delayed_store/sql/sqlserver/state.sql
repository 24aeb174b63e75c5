-- Count the messages of a store, up to `most`, and those of them that are overdue; say when the first is due.
-- On SQL Server `readpast` passes over what a poller is removing, so it never waits. Keeps no lock.
-- Returns one row: waiting, overdue, next due (UTC, null: none), and the database's time.
declare @most int = N'$(most)';
declare @now datetime = sysutcdatetime();

select
    count(*) as waiting,
    coalesce(sum(case when soonest.[Time] <= @now then 1 else 0 end), 0) as overdue,
    min(soonest.[Time]) as next_due,
    @now as at
from (
    select top(@most) [Time]
    from [$(catalog)].[$(schema)].[$(store)] with (readpast)
    order by [Time]
) as soonest;
