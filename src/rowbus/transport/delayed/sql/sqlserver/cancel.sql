-- Cancel a message that waits to become due: the one with this id in its headers, as compact or spaced JSON. One that
-- waits for its next delayed retry has been delivered before, and stays.
-- Reads the whole table: headers have no index. On SQL Server it waits for every row that another transaction has locked,
-- and so for a mover: what that has moved is not there any more. Returns one row: how many it deleted. Leaves NOCOUNT as
-- it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @quoted_id nvarchar(max) = N'$(quoted_id)';

delete from [$(catalog)].[$(schema)].[$(delayed)] with (rowlock)
where
    (
        charindex(N'"NServiceBus.MessageId":' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
        or charindex(N'"NServiceBus.MessageId": ' + @quoted_id, Headers collate Latin1_General_BIN2) > 0
    )
    and charindex(N'"NServiceBus.Retries"', Headers collate Latin1_General_BIN2) = 0;
select @@rowcount as cancelled;

if @nocount = 0 set nocount off;
