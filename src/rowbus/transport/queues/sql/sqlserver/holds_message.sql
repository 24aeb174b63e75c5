-- Say whether a message is in the queue: one with this id in its headers, as compact or spaced JSON. Any table that has a
-- column `Headers` will do.
-- Reads the whole table: headers have no index. On SQL Server it waits for who has a row in hand. Keeps no lock; returns one
-- row: 1 or 0.
declare @quoted_id nvarchar(max) = N'$(quoted_id)';

select
    case
        when exists (
            select 1
            from [$(catalog)].[$(schema)].[$(queue)] as message
            where
                charindex(
                    N'"NServiceBus.MessageId":' + @quoted_id, message.Headers collate Latin1_General_BIN2
                ) > 0
                or charindex(
                    N'"NServiceBus.MessageId": ' + @quoted_id, message.Headers collate Latin1_General_BIN2
                ) > 0
        ) then 1
        else 0
    end as holds;
