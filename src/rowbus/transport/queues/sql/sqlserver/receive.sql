-- Take the oldest message that is not in flight; it is gone when the transaction commits and back when it does not.
-- On SQL Server it never waits for other receivers: the inner select walks Index_RowVersion and takes an update lock on the
-- first row that is free (`updlock` lets no two have the same one, `readpast` passes over rows that others have locked,
-- `rowlock` keeps it from locking whole pages); the delete then seeks that one row by the same index, and its exclusive
-- lock lasts until the transaction ends. On Babelfish `readpast` passes over nothing: there it waits for who has the row.
-- A message above `most_bytes` is left where it is, and nothing is returned: find_oversized.sql finds it. Returns at most
-- one row: id, ms_left, headers, body, position, legacy CorrelationId and ReplyToAddress. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @now datetime = sysutcdatetime();
declare @lower_bound bigint = N'$(lower_bound)';
declare @most_bytes bigint = N'$(most_bytes)';

delete [$(catalog)].[$(schema)].[$(queue)]
output
    deleted.Id as id,
    datediff_big(ms, @now, deleted.Expires) as ms_left,
    N' ' + deleted.Headers as headers,
    deleted.Body as body,
    deleted.RowVersion as position,
    deleted.CorrelationId as correlation_id,
    deleted.ReplyToAddress as reply_to_address
where
    RowVersion = (
        select top(1) RowVersion
        from [$(catalog)].[$(schema)].[$(queue)] with (updlock, readpast, rowlock)
        where RowVersion >= @lower_bound
        order by RowVersion
    )
    and datalength(Headers) + coalesce(datalength(Body), 0) <= @most_bytes;

if @nocount = 0 set nocount off;
