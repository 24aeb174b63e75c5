-- Keep a message until it is due; one that is kept already, by its id, stays as it is. The column keeps 1/300 s, so the
-- time is rounded up to what it can hold: a message is never due early.
-- Waits for a transaction that stores a message of the same id: by an application lock on the message, which the
-- transaction keeps, and not by `holdlock`, whose locks on gaps would hold up other messages. Outside a transaction there
-- is no such lock, and who is second may fail with 2627. Returns nothing. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @resource nvarchar(255) = N'$(resource)';
declare @message_id nvarchar(250) = N'$(message_id)';
declare @destination nvarchar(max) = N'$(destination)';
declare @body varbinary(max) = convert(varbinary(max), N'$(body)');
declare @exact datetime2 = cast(N'$(time)' as datetime2);
declare @headers varbinary(max) = convert(varbinary(max), N'$(headers)');
declare @time datetime = cast(@exact as datetime);
declare @rounded_up datetime = case
    when cast(@time as datetime2) = @exact then @time
    else dateadd(ms, 2, @exact)
end;

if @@trancount > 0
begin
    exec sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction';
end;

insert into [$(catalog)].[$(schema)].[$(store)] (Id, Destination, State, [Time], Headers, RetryCount)
select
    @message_id as Id,
    @destination as Destination,
    @body as State,
    @rounded_up as [Time],
    @headers as Headers,
    0 as RetryCount
where not exists (
    select 1
    from [$(catalog)].[$(schema)].[$(store)] as known
    where known.Id = @message_id
);

if @nocount = 0 set nocount off;
