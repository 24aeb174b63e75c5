-- Look at the sagas of an id, or found by a text, without keeping others from them.
-- On SQL Server it waits for a handler that has them in its hands. Keeps no lock; finds them by the table's two indexes.
-- Returns their rows: one, none, or two if an id is another's text.
declare @key nvarchar(200) = N'$(key)';
declare @id uniqueidentifier = N'$(id)';

select
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
from [$(catalog)].[$(schema)].[$(saga)]
where Correlation = @key or Id = @id;
