-- Take up to `batch_size` messages from a table without the legacy columns CorrelationId and ReplyToAddress; otherwise as
-- receive_batch.sql, with its locks: update locks on the first free rows, others passed over, never waiting.
-- Messages above `most_bytes` are left where they are (find_oversized.sql). Returns id, ms_left, headers, body, position
-- of each, in no particular order. Leaves NOCOUNT as it found it.
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
    deleted.RowVersion as position
where
    RowVersion in (
        select top(@batch_size) RowVersion
        from [$(catalog)].[$(schema)].[$(queue)] with (updlock, readpast, rowlock)
        where RowVersion >= @lower_bound
        order by RowVersion
    )
    and datalength(Headers) + coalesce(datalength(Body), 0) <= @most_bytes;

if @nocount = 0 set nocount off;
