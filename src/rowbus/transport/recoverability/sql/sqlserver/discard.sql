-- Delete these rows of the queue for good. The table has no index by id, so this reads all of it.
-- On SQL Server it locks the rows it deletes and passes over those in flight (`readpast`), so it never waits. On
-- Babelfish it waits for them. Returns one row: how many it deleted. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @row_ids nvarchar(max) = N'$(row_ids)';

delete from [$(catalog)].[$(schema)].[$(queue)] with (readpast, rowlock)
where Id in (select cast(value as uniqueidentifier) from string_split(@row_ids, N','));
select @@rowcount as deleted;

if @nocount = 0 set nocount off;
