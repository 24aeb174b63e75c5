-- Take up to `batch_size` of the oldest messages that are not in flight, in one transaction of the caller's.
-- On SQL Server it never waits for other receivers: the inner select takes update locks on the first free rows in the order
-- of Index_RowVersion and passes over locked ones, as receive.sql does; `readpast` on the table deleted from keeps a plan
-- that scans it, which a short queue may get, from waiting for rows in the hands of others.
-- Messages above `most_bytes` count, but are left where they are (find_oversized.sql). Returns id, ms_left, headers, body,
-- position, legacy CorrelationId and ReplyToAddress of each, in no particular order (the caller sorts by position). Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @now datetime = sysutcdatetime();
declare @lower_bound bigint = N'$(lower_bound)';
declare @most_bytes bigint = N'$(most_bytes)';
declare @batch_size int = N'$(batch_size)';

delete [$(catalog)].[$(schema)].[$(queue)] with (readpast, rowlock)
output
    deleted.Id as id,
    datediff_big(ms, @now, deleted.Expires) as ms_left,
    N' ' + deleted.Headers as headers,
    deleted.Body as body,
    deleted.RowVersion as position,
    deleted.CorrelationId as correlation_id,
    deleted.ReplyToAddress as reply_to_address
where
    RowVersion in (
        select top(@batch_size) RowVersion
        from [$(catalog)].[$(schema)].[$(queue)] with (updlock, readpast, rowlock)
        where RowVersion >= @lower_bound
        order by RowVersion
    )
    and datalength(Headers) + coalesce(datalength(Body), 0) <= @most_bytes;

if @nocount = 0 set nocount off;
