-- Look at the sagas that go on, in the order of the texts that find them, after one of these: a page, by the index of texts.
-- On SQL Server `readpast` passes over those that a handler has in its hands, so it never waits. Keeps no lock; reads on
-- from there until it has `most` whose text begins as asked, all do if nothing is. Returns the rows.
declare @after nvarchar(200) = N'$(after)';
declare @beginning nvarchar(200) = N'$(beginning)';
declare @length int = len(@beginning + N'.') - 1;
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
where Correlation > @after and left(Correlation, @length) = @beginning
order by correlation;
