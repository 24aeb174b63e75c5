-- Find the saga of an id, in .NET's table, and keep others from it until the transaction ends.
-- On SQL Server `updlock` locks its row, and waits for one who holds it. Returns its row, none if there is no such saga.
select
    lower(cast(Id as char(36))) as id,
    cast([$(correlation_column)] as nvarchar(200)) as correlation,
    Data as state,
    Concurrency as concurrency,
    Metadata as metadata
from [$(catalog)].[$(schema)].[$(shared_saga)] with (updlock, rowlock)
where Id = cast(N'$(id)' as uniqueidentifier);
