-- Find the saga that a message is correlated with, in .NET's table, and keep others from it until the transaction ends.
-- The server converts the text to the column's type. On SQL Server `updlock` locks the row, and waits for one who holds
-- it. Returns the row, none if there is no such saga.
declare @correlation nvarchar(200) = N'$(correlation)';

select
    lower(cast(Id as char(36))) as id,
    cast([$(correlation_column)] as nvarchar(200)) as correlation,
    Data as state,
    Concurrency as concurrency,
    Metadata as metadata
from [$(catalog)].[$(schema)].[$(shared_saga)] with (updlock, rowlock)
where [$(correlation_column)] = @correlation;
