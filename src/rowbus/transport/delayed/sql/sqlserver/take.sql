-- Take hold of a message before it is due, to move it in this transaction: the one with this id in its headers, as compact
-- or spaced JSON. Reads the whole table: headers have no index.
-- On SQL Server it locks each row that is free and passes over those that a mover has in its hands (`readpast`), so it
-- never waits. It is an update of nothing, because on Babelfish a select takes no lock.
-- Returns position, due (UTC) and headers; no row when it is not there or not free. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @quoted_id nvarchar(max) = N'$(quoted_id)';

update [$(catalog)].[$(schema)].[$(delayed)] with (readpast, rowlock)
set Due = Due
output
    inserted.RowVersion as position,
    inserted.Due as due,
    substring(inserted.Headers, 1, 1048576) as headers
where
    charindex(N'"NServiceBus.MessageId":' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
    or charindex(N'"NServiceBus.MessageId": ' + @quoted_id, Headers collate Latin1_General_BIN2) > 0;

if @nocount = 0 set nocount off;
