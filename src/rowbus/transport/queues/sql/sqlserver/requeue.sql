-- Put one message at the end of its queue again, with other headers than it had: the same id, body and time to be
-- received, a new position. It is found by its position and its id, so that one that was put back meanwhile stays.
-- On SQL Server both statements lock the row they find and pass over one in flight (`readpast`): they
-- never wait; so nothing is deleted but what was inserted, as its holder may let go of it in between. On Babelfish they
-- wait for who has it. To be run in a transaction. Returns one row: how many were put back. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);
declare @position bigint = N'$(position)';
declare @headers nvarchar(max) = N'$(headers)';

insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Recoverable, Expires, Headers, Body)
select
    message.Id,
    1 as Recoverable,
    message.Expires,
    @headers as Headers,
    message.Body
from [$(catalog)].[$(schema)].[$(queue)] as message with (updlock, readpast, rowlock)
where message.RowVersion = @position and message.Id = @row_id;

declare @found int = @@rowcount;
delete from [$(catalog)].[$(schema)].[$(queue)] with (readpast, rowlock)
where RowVersion = @position and Id = @row_id and @found = 1;
select @@rowcount as requeued;

if @nocount = 0 set nocount off;
