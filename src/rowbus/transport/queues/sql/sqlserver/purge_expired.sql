-- Delete up to `batch_size` messages whose time to be received is over, oldest first.
-- On SQL Server the inner select finds them by Index_Expires and takes update locks on those that are free, passing over the
-- others (`readpast`); the delete seeks these rows by Index_RowVersion, or scans with `readpast` itself. So it never waits
-- for a receiver and no receiver waits for it, but a receiver that came to the same rows in another order may be chosen as
-- a deadlock's victim, or this may (error 1205). Returns one row with one integer: how many it deleted.
declare @nocount int = @@options & 512;
set nocount on;
declare @batch_size int = N'$(batch_size)';
declare @now datetime = sysutcdatetime();

delete from [$(catalog)].[$(schema)].[$(queue)] with (readpast, rowlock)
where RowVersion in (
    select top(@batch_size) RowVersion
    from [$(catalog)].[$(schema)].[$(queue)] with (updlock, readpast, rowlock)
    where Expires <= @now
    order by Expires
);
select @@rowcount as deleted;

if @nocount = 0 set nocount off;
