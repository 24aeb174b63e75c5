-- Keep what a message did to a saga, in the transaction in which it did.
-- Locks only the row it inserts; the saga is locked by this transaction, so nothing else writes this number. Returns
-- nothing. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @saga_id uniqueidentifier = N'$(saga_id)';
declare @number int = N'$(number)';
declare @correlation nvarchar(200) = N'$(correlation)';
declare @message_id nvarchar(max) = N'$(message_id)';
declare @message_type nvarchar(max) = N'$(message_type)';
declare @before nvarchar(max) = nullif(N'$(before)', N'');
declare @after nvarchar(max) = N'$(after)';
declare @is_completed int = N'$(is_completed)';

insert into [$(catalog)].[$(schema)].[$(history)]
(SagaId, Number, Correlation, MessageId, MessageType, Before, After, IsCompleted, At)
values (
    @saga_id,
    @number,
    @correlation,
    @message_id,
    @message_type,
    @before,
    @after,
    @is_completed,
    sysutcdatetime()
);

if @nocount = 0 set nocount off;
