-- Take hold of a message whose time is known before it is due, to move it in this transaction: the one with this id in its
-- headers that is due at this instant (UTC), give or take the ten milliseconds that `datetime` and texts round by.
-- Finds it by Index_Due, and locks as take.sql, never waiting on SQL Server.
-- Returns position, due (UTC) and headers; no row when it is not there or not free. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @at datetime2 = cast(N'$(at)' as datetime2);
declare @first_due datetime = dateadd(ms, -10, @at);
declare @last_due datetime = dateadd(ms, 10, @at);
declare @quoted_id nvarchar(max) = N'$(quoted_id)';

update [$(catalog)].[$(schema)].[$(delayed)] with (readpast, rowlock)
set Due = Due
output
    inserted.RowVersion as position,
    inserted.Due as due,
    substring(inserted.Headers, 1, 1048576) as headers
where
    Due between @first_due and @last_due
    and (
        charindex(N'"NServiceBus.MessageId":' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
        or charindex(N'"NServiceBus.MessageId": ' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
    );

if @nocount = 0 set nocount off;
