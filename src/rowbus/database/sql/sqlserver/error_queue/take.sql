-- Take these rows out of the queue, to put them elsewhere in the same transaction. The table has no index by id, so this
-- reads all of it.
-- On SQL Server it locks the rows it deletes and passes over those in somebody's hands (`readpast`), so it never waits. On
-- Babelfish it waits for them. Returns id, headers, body, position of each, in no particular order (the caller sorts by
-- position). Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @row_ids nvarchar(max) = N'$(row_ids)';

delete [$(catalog)].[$(schema)].[$(queue)] with (readpast, rowlock)
output
    lower(cast(deleted.Id as char(36))) as id,
    deleted.Headers as headers,
    deleted.Body as body,
    deleted.RowVersion as position
where Id in (select cast(value as uniqueidentifier) from string_split(@row_ids, N','));

if @nocount = 0 set nocount off;
