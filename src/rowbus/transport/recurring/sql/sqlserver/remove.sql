-- Forget a schedule, which an endpoint that has it notes again when it starts.
-- Locks the row, waiting for a transaction that sends its tick. Returns one row: how many there were. Leaves NOCOUNT as it
-- found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @name nvarchar(200) = N'$(name)';

delete from [$(catalog)].[$(schema)].[$(recurring)]
where Name = @name;
select @@rowcount as removed;

if @nocount = 0 set nocount off;
