-- Take back what was noted of one message, which was not processed after all.
-- Locks the row it deletes; returns nothing. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @message_key nvarchar(400) = N'$(message_key)';

delete from [$(catalog)].[$(schema)].[$(inbox)]
where MessageKey = @message_key;

if @nocount = 0 set nocount off;
