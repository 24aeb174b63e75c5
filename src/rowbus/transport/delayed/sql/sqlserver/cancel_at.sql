-- Cancel a message whose time is known: the one with this id in its headers that is due at this instant (UTC), give or take
-- the ten milliseconds that `datetime` and texts round by. One that waits for its next delayed retry is due later, and
-- stays.
-- Finds it by Index_Due. Locks the row it deletes, waiting for a mover that is moving it: what that has moved is not there
-- any more. Returns one row: how many it deleted. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @at datetime2 = cast(N'$(at)' as datetime2);
declare @first_due datetime = dateadd(ms, -10, @at);
declare @last_due datetime = dateadd(ms, 10, @at);
declare @quoted_id nvarchar(max) = N'$(quoted_id)';

delete from [$(catalog)].[$(schema)].[$(delayed)] with (rowlock)
where
    Due between @first_due and @last_due
    and (
        charindex(N'"NServiceBus.MessageId":' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
        or charindex(N'"NServiceBus.MessageId": ' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
    )
    and charindex(N'"NServiceBus.Retries"', Headers collate Latin1_General_BIN2) = 0;
select @@rowcount as cancelled;

if @nocount = 0 set nocount off;
