-- Find the saga that a message is correlated with, or write the row of one that begins with it.
-- Waits for one who holds the saga or is about to begin it: by an application lock on its correlation, which the
-- transaction keeps, and not by `holdlock`, whose locks on gaps would hold up other sagas; then locks its row. Returns the
-- row. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @resource nvarchar(255) = N'$(resource)';
declare @correlation nvarchar(200) = N'$(correlation)';
declare @version int = N'$(version)';
declare @originator nvarchar(max) = N'$(originator)';
declare @original_message_id nvarchar(max) = N'$(original_message_id)';

exec sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction';

insert into [$(catalog)].[$(schema)].[$(saga)]
(Id, Correlation, State, Version, Concurrency, Originator, OriginalMessageId, Timeouts, Began, Changed)
select
    newid() as Id,
    @correlation as Correlation,
    N'{}' as State,
    @version as Version,
    0 as Concurrency,
    @originator as Originator,
    @original_message_id as OriginalMessageId,
    N'[]' as Timeouts,
    sysutcdatetime() as Began,
    sysutcdatetime() as Changed
where not exists (
    select 1
    from [$(catalog)].[$(schema)].[$(saga)] as known
    where known.Correlation = @correlation
);

select
    lower(cast(Id as char(36))) as id,
    Correlation as correlation,
    State as state,
    Version as version,
    Concurrency as concurrency,
    Originator as originator,
    OriginalMessageId as original_message_id,
    Timeouts as timeouts
from [$(catalog)].[$(schema)].[$(saga)] with (updlock, rowlock)
where Correlation = @correlation;

if @nocount = 0 set nocount off;
