-- Read what the sagas did that have an id, or were found by a text: several if one began after another had completed.
-- On SQL Server it waits for a handler that is writing a line. Keeps no lock; finds them by two indexes. Returns a row for
-- each transition, the oldest first.
declare @key nvarchar(200) = N'$(key)';
declare @id uniqueidentifier = N'$(id)';

select
    lower(cast(SagaId as char(36))) as saga_id,
    Number as number,
    Correlation as correlation,
    MessageId as message_id,
    MessageType as message_type,
    Before as before,
    After as after,
    IsCompleted as is_completed,
    At as at
from [$(catalog)].[$(schema)].[$(history)]
where Correlation = @key or SagaId = @id
order by At, Number;
