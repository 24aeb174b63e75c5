-- Take hold of the messages that have been due the longest and that no other mover has in its hands, to move them in
-- this transaction. The clock is set back by what `datetime` may round up, so that nothing is taken early.
-- On SQL Server it never waits for other movers: the select walks Index_Due, takes an update lock on each row that is free
-- (`updlock`), passes over those that others have locked (`readpast`) and locks no pages (`rowlock`). NServiceBus's movers
-- take the same locks. On Babelfish it waits for who has a row. Returns position, due, headers of at most `batch_size`
-- messages, in the order in which they became due; of those due at the same time in any order (the caller sorts).
declare @batch_size int = N'$(batch_size)';
declare @now datetime = dateadd(ms, -2, sysutcdatetime());

select top(@batch_size)
    RowVersion as position,
    Due as due,
    substring(Headers, 1, 1048576) as headers
from [$(catalog)].[$(schema)].[$(delayed)] with (updlock, readpast, rowlock)
where Due <= @now
order by Due;
