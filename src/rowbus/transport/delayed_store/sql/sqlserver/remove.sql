-- Let go of a message that was sent.
-- Locks its row, found by the primary key, and waits for its holder. Returns one row: how many there were, 1
-- or 0. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @message_id nvarchar(250) = N'$(message_id)';

delete from [$(catalog)].[$(schema)].[$(store)]
where Id = @message_id;
select @@rowcount as removed;

if @nocount = 0 set nocount off;
