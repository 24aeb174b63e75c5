-- Find the saga of an id, and keep others from it until the transaction ends.
-- On SQL Server `updlock` locks its row, and waits for one who holds it. Returns its row, none if there is no such saga.
select
    lower(cast(Id as char(36))) as id,
    Correlation as correlation,
    State as state,
    Version as version,
    Concurrency as concurrency,
    Originator as originator,
    OriginalMessageId as original_message_id,
    Timeouts as timeouts
from [$(catalog)].[$(schema)].[$(saga)] with (updlock, rowlock)
where Id = cast(N'$(id)' as uniqueidentifier);
