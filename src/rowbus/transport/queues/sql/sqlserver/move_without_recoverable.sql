-- As move.sql, into a queue whose table has no column Recoverable.
-- Locks the same row, or passes over it when it is in flight; never waits. Returns one row: how many were moved. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @row_id uniqueidentifier = cast(N'$(row_id)' as uniqueidentifier);
declare @position bigint = N'$(position)';
declare @headers nvarchar(max) = N'$(headers)';

insert into [$(to_catalog)].[$(to_schema)].[$(to_queue)] (Id, Expires, Headers, Body)
select
    newid() as Id,
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
