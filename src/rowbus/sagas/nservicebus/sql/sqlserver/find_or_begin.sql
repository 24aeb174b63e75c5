-- Find the saga that a message is correlated with, in .NET's table, or write the row of one that begins with it.
-- Waits for one who holds the saga or is about to begin it: of ours by an application lock on its correlation, which the
-- transaction keeps; of .NET, which takes none, by the unique index. Then locks the row. Returns it; fails with 2601 if .NET
-- was faster: then it is found by asking again. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @resource nvarchar(255) = N'$(resource)';
declare @correlation nvarchar(200) = N'$(correlation)';
declare @metadata nvarchar(max) = N'$(metadata)';

exec sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction';

insert into [$(catalog)].[$(schema)].[$(shared_saga)]
(Id, Metadata, Data, PersistenceVersion, SagaTypeVersion, Concurrency, [$(correlation_column)])
select
    newid() as Id,
    @metadata as Metadata,
    N'{}' as Data,
    'rowbus' as PersistenceVersion,
    '0.0' as SagaTypeVersion,
    0 as Concurrency,
    @correlation as Correlation
where not exists (
    select 1
    from [$(catalog)].[$(schema)].[$(shared_saga)] as known
    where known.[$(correlation_column)] = @correlation
);

select
    lower(cast(Id as char(36))) as id,
    cast([$(correlation_column)] as nvarchar(200)) as correlation,
    Data as state,
    Concurrency as concurrency,
    Metadata as metadata
from [$(catalog)].[$(schema)].[$(shared_saga)] with (updlock, rowlock)
where [$(correlation_column)] = @correlation;

if @nocount = 0 set nocount off;
