-- Move delayed messages, which the caller has locked, to a queue on the same server, in the order in which they became due.
-- `mark` is the header that named the queue: it has done its work. Binary collation, because the default one may take
-- `Sales` for `sales`. The times are those of the first and the last, widened by what their text loses: they make both
-- statements seek in Index_Due, for the table has no index by position.
-- On SQL Server it never waits for other movers: all rows it wants are under this transaction's update locks, and those of
-- others in the same stretch of the index are passed over (`readpast`). Returns one row: how many were moved. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @positions nvarchar(max) = N'$(positions)';
declare @first_due datetime = dateadd(ms, -4, cast(N'$(first_due)' as datetime2));
declare @last_due datetime = dateadd(ms, 4, cast(N'$(last_due)' as datetime2));
declare @mark nvarchar(max) = N'$(mark)';

insert into [$(queue_catalog)].[$(queue_schema)].[$(queue)] (Id, Recoverable, Expires, Headers, Body)
select
    newid() as Id,
    1 as Recoverable,
    null as Expires,
    replace(waiting.Headers collate Latin1_General_BIN2, @mark, N'') as Headers,
    waiting.Body
from [$(catalog)].[$(schema)].[$(delayed)] as waiting with (updlock, readpast, rowlock)
where
    waiting.Due between @first_due and @last_due
    and waiting.RowVersion in (select cast(value as bigint) from string_split(@positions, N','))
order by waiting.Due, waiting.RowVersion;

delete from [$(catalog)].[$(schema)].[$(delayed)] with (readpast, rowlock)
where
    Due between @first_due and @last_due
    and RowVersion in (select cast(value as bigint) from string_split(@positions, N','));
select @@rowcount as moved;

if @nocount = 0 set nocount off;
