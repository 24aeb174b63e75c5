-- Forget up to `batch_size` messages that were accepted longer ago than that, the oldest first.
-- On SQL Server it never waits: the inner select finds them by Index_Accepted and takes update locks on those that are
-- free, passing over rows that others delete (`readpast`), and so does the delete. Returns one row: how many it deleted.
-- Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @batch_size int = N'$(batch_size)';
declare @days int = N'$(older_than_days)';
declare @ms int = N'$(older_than_ms)';
declare @before datetime = dateadd(ms, -@ms, dateadd(day, -@days, sysutcdatetime()));

delete from [$(catalog)].[$(schema)].[$(inbox)] with (readpast, rowlock)
where MessageKey in (
    select top(@batch_size) MessageKey
    from [$(catalog)].[$(schema)].[$(inbox)] with (updlock, readpast, rowlock)
    where Accepted < @before
    order by Accepted
);
select @@rowcount as deleted;

if @nocount = 0 set nocount off;
