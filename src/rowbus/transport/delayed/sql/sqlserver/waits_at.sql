-- Say whether a message whose time is known waits: the one with this id in its headers that is due at this instant (UTC),
-- give or take the ten milliseconds that `datetime` and texts round by.
-- Finds it by Index_Due. On SQL Server it waits for who has the row in hand. Keeps no lock; returns one row: 1 or 0.
declare @at datetime2 = cast(N'$(at)' as datetime2);
declare @first_due datetime = dateadd(ms, -10, @at);
declare @last_due datetime = dateadd(ms, 10, @at);
declare @quoted_id nvarchar(max) = N'$(quoted_id)';

select
    case
        when exists (
            select 1
            from [$(catalog)].[$(schema)].[$(delayed)] as waiting
            where
                waiting.Due between @first_due and @last_due
                and (
                    charindex(
                        N'"NServiceBus.MessageId":' + @quoted_id, waiting.Headers collate Latin1_General_BIN2
                    ) > 0
                    or charindex(
                        N'"NServiceBus.MessageId": ' + @quoted_id, waiting.Headers collate Latin1_General_BIN2
                    ) > 0
                )
        ) then 1
        else 0
    end as waits;
