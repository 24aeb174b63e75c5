-- Look at the sagas that go on, those first that have changed least recently, without keeping others from them.
-- On SQL Server `readpast` passes over those that a handler has in its hands, so it never waits. Keeps no lock; reads the
-- whole table. Returns the rows of at most `most` sagas.
declare @most int = N'$(most)';

select top(@most)
    lower(cast(Id as char(36))) as id,
    Correlation as correlation,
    State as state,
    Version as version,
    Concurrency as concurrency,
    Originator as originator,
    OriginalMessageId as original_message_id,
    Timeouts as timeouts,
    Began as began,
    Changed as changed
from [$(catalog)].[$(schema)].[$(saga)] with (readpast)
order by changed;
