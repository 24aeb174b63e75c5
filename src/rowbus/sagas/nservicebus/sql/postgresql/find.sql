-- Find the saga that a message is correlated with, in .NET's table, and keep others from it until the transaction ends.
-- Locks its row, and waits for one who holds it. Returns its row, none if there is no such saga.
select
    "Id"::text,
    :"correlation_column"::text,
    "Data"::text,
    "Concurrency",
    "Metadata"
from :"schema".:"shared_saga"
where :"correlation_column" = cast(:'correlation'::text as :"correlation_type")
for update
