-- Note that a message is being processed, unless it was before.
-- Waits for a transaction that has just noted the same and has not ended: by an application lock on the message, which
-- the transaction keeps, and not by `holdlock`, whose locks on gaps would hold up handlers of other messages. Outside a
-- transaction there is no such lock, and who is second may fail with 2627. Returns one row: 1 if the message is new, else
-- 0. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @resource nvarchar(255) = N'$(resource)';
declare @message_key nvarchar(400) = N'$(message_key)';

if @@trancount > 0
begin
    exec sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction';
end;

insert into [$(catalog)].[$(schema)].[$(inbox)] (MessageKey, Accepted)
select
    @message_key as MessageKey,
    sysutcdatetime() as Accepted
where not exists (
    select 1
    from [$(catalog)].[$(schema)].[$(inbox)] as known
    where known.MessageKey = @message_key
);
select @@rowcount as is_new;

if @nocount = 0 set nocount off;
