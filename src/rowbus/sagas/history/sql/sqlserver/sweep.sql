-- Delete what two sagas at most did that completed longer ago than they are kept. Each completion calls it, so that more go
-- than come.
-- On SQL Server it passes over lines that others have locked (`readpast`), so it never waits for another sweep. Locks the
-- rows it deletes. Returns nothing. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @oldest datetime = dateadd(second, -cast(N'$(keep_seconds)' as int), sysutcdatetime());

delete from [$(catalog)].[$(schema)].[$(history)]
where SagaId in (
    select top(2) line.SagaId
    from [$(catalog)].[$(schema)].[$(history)] as line with (updlock, readpast, rowlock)
    where line.IsCompleted = 1 and line.At < @oldest
    order by line.At
);

if @nocount = 0 set nocount off;
