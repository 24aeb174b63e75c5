-- Take hold of a message before it is due, to move it in this transaction: the one with this id in its headers, as compact
-- or spaced JSON. Reads the whole table: headers have no index.
-- On SQL Server it takes an update lock on each row that is free and passes over those that a mover has in its hands
-- (`readpast`), so it never waits. Returns position, due (UTC) and headers; no row when it is not there or not free.
declare @quoted_id nvarchar(max) = N'$(quoted_id)';

select
    RowVersion as position,
    Due as due,
    substring(Headers, 1, 1048576) as headers
from [$(catalog)].[$(schema)].[$(delayed)] with (updlock, readpast, rowlock)
where
    charindex(N'"NServiceBus.MessageId":' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
    or charindex(N'"NServiceBus.MessageId": ' + @quoted_id, Headers collate Latin1_General_BIN2) > 0;
