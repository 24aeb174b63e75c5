-- Take up to `batch_size` of the oldest messages that no other receiver has locked, but none at the positions
-- `passed_over`, which could not be dealt with lately; otherwise as receive_batch.sql, with its locks, never waiting for
-- other receivers.
-- Returns id, ms_left, headers, body, position, legacy CorrelationId and ReplyToAddress of each, in no particular order.
-- Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @now datetime = sysutcdatetime();
declare @lower_bound bigint = N'$(lower_bound)';
declare @most_bytes bigint = N'$(most_bytes)';
declare @batch_size int = N'$(batch_size)';
declare @passed_over nvarchar(max) = N'$(passed_over)';

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
        where
            RowVersion >= @lower_bound
            and RowVersion not in (select cast(value as bigint) from string_split(@passed_over, N','))
        order by RowVersion
    )
    and datalength(Headers) + coalesce(datalength(Body), 0) <= @most_bytes;

if @nocount = 0 set nocount off;
