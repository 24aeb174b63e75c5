-- Find the saga that a message is correlated with, in .NET's table, or write the row of one that begins with it.
-- Locks the row, and waits for one who holds it or who is about to begin the same saga. Returns the row; none if another
-- began the saga after this statement did, and has committed: then it is found by asking again.
with known as (
    select
        "Id",
        :"correlation_column" as correlation,
        "Data",
        "Concurrency",
        "Metadata"
    from :"schema".:"shared_saga"
    where :"correlation_column" = cast(:'correlation'::text as :"correlation_type")
    for update
),

begun as (
    insert into :"schema".:"shared_saga" (
        "Id",
        "Metadata",
        "Data",
        "PersistenceVersion",
        "SagaTypeVersion",
        "Concurrency",
        :"correlation_column"
    )
    select
        gen_random_uuid() as id,
        :'metadata'::text as metadata,
        '{}'::jsonb as data,
        'rowbus' as persistence_version,
        '0.0' as saga_type_version,
        0 as concurrency,
        cast(:'correlation'::text as :"correlation_type") as correlation
    where not exists (select from known)
    on conflict (:"correlation_column") do nothing
    returning "Id", :"correlation_column" as correlation, "Data", "Concurrency", "Metadata"
),

found as (
    select
        "Id",
        correlation,
        "Data",
        "Concurrency",
        "Metadata"
    from known
    union all
    select
        "Id",
        correlation,
        "Data",
        "Concurrency",
        "Metadata"
    from begun
)

select
    "Id"::text,
    correlation::text,
    "Data"::text,
    "Concurrency",
    "Metadata"
from found
