-- Move one message to another queue on the same server with other headers than it had; its body stays in the database,
-- however large it is. It is found by its position and its id.
-- On SQL Server both statements lock the row they find and pass over one in flight (`readpast`): they
-- never wait; so nothing is deleted but what was inserted, as its holder may let go of it in between. On Babelfish they
-- wait for who has it. Returns one row: how many were moved. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);
declare @position bigint = N'$(position)';
declare @headers nvarchar(max) = N'$(headers)';

insert into [$(to_catalog)].[$(to_schema)].[$(to_queue)] (Id, Recoverable, Expires, Headers, Body)
select
    newid() as Id,
    1 as Recoverable,
    null as Expires,
    @headers as Headers,
    coalesce(message.Body, convert(varbinary(max), N'')) as Body
from [$(catalog)].[$(schema)].[$(queue)] as message with (updlock, readpast, rowlock)
where message.RowVersion = @position and message.Id = @row_id;

declare @found int = @@rowcount;
delete from [$(catalog)].[$(schema)].[$(queue)] with (readpast, rowlock)
where RowVersion = @position and Id = @row_id and @found = 1;
select @@rowcount as moved;

if @nocount = 0 set nocount off;
