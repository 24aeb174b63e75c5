-- Take the oldest message from a table without the legacy columns CorrelationId and ReplyToAddress; otherwise as
-- receive.sql, with its locks: an update lock on the first free row of Index_RowVersion, others passed over, never waiting.
-- A message above `most_bytes` is left where it is (find_oversized.sql). Returns at most one row: id, ms_left, headers,
-- body, position. Leaves NOCOUNT as it found it.
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
    deleted.RowVersion as position
where
    RowVersion = (
        select top(1) RowVersion
        from [$(catalog)].[$(schema)].[$(queue)] with (updlock, readpast, rowlock)
        where RowVersion >= @lower_bound
        order by RowVersion
    )
    and datalength(Headers) + coalesce(datalength(Body), 0) <= @most_bytes;

if @nocount = 0 set nocount off;
