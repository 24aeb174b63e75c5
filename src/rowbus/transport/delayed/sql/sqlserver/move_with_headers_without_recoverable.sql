-- As move_with_headers.sql, into a queue whose table has no column Recoverable.
-- Locks and passes over the same rows, never waiting for other movers. Returns one row: how many were moved. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @position bigint = N'$(position)';
declare @first_due datetime = dateadd(ms, -4, cast(N'$(first_due)' as datetime2));
declare @last_due datetime = dateadd(ms, 4, cast(N'$(last_due)' as datetime2));
declare @headers nvarchar(max) = N'$(headers)';

insert into [$(queue_catalog)].[$(queue_schema)].[$(queue)] (Id, Expires, Headers, Body)
select
    newid() as Id,
    null as Expires,
    @headers as Headers,
    coalesce(waiting.Body, convert(varbinary(max), N'')) as Body
from [$(catalog)].[$(schema)].[$(delayed)] as waiting with (updlock, readpast, rowlock)
where waiting.Due between @first_due and @last_due and waiting.RowVersion = @position;

delete from [$(catalog)].[$(schema)].[$(delayed)] with (readpast, rowlock)
where Due between @first_due and @last_due and RowVersion = @position;
select @@rowcount as moved;

if @nocount = 0 set nocount off;
