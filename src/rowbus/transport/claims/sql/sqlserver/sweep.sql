-- Delete up to `batch_size` parts of values whose time is over, and the other parts of these values.
-- On SQL Server it never waits: the inner select finds them by Index_KeepUntil and takes update locks on those that are
-- free, passing over those that others delete (`readpast`), and so does the delete. Returns one row: how many it deleted.
-- Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @batch_size int = N'$(batch_size)';
declare @now datetime = sysutcdatetime();

delete from [$(catalog)].[$(schema)].[$(claimed)] with (readpast, rowlock)
where Id in (
    select top(@batch_size) Id
    from [$(catalog)].[$(schema)].[$(claimed)] with (updlock, readpast, rowlock)
    where KeepUntil < @now
    order by KeepUntil
);
select @@rowcount as deleted;

if @nocount = 0 set nocount off;
