-- As requeue.sql, for a queue whose table has no column Recoverable.
-- Locks the same row, or passes over it when it is in flight; never waits. Returns one row: how many were put back. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);
declare @position bigint = N'$(position)';
declare @headers nvarchar(max) = N'$(headers)';

insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Expires, Headers, Body)
select
    message.Id,
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
