-- Find the saga that a message is correlated with, or write the row of one that begins with it.
-- Locks the row, and waits for one who holds it or who is about to begin the same saga. Returns the row; none if another
-- began the saga after this statement did, and has committed: then it is found by asking again.
with known as (
    select
        id,
        correlation,
        state::text,
        version,
        concurrency,
        originator,
        original_message_id,
        timeouts::text
    from :"schema".:"saga"
    where correlation = :'correlation'::text
    for update
),

begun as (
    insert into :"schema".:"saga" (correlation, state, version, concurrency, originator, original_message_id)
    select
        :'correlation'::text as correlation,
        '{}'::jsonb as state,
        :'version'::integer as version,
        0 as concurrency,
        :'originator'::text as originator,
        :'original_message_id'::text as original_message_id
    where not exists (select from known)
    on conflict (correlation) do nothing
    returning
        id,
        correlation,
        state::text,
        version,
        concurrency,
        originator,
        original_message_id,
        timeouts::text
)

select
    id,
    correlation,
    state,
    version,
    concurrency,
    originator,
    original_message_id,
    timeouts
from known
union all
select
    id,
    correlation,
    state,
    version,
    concurrency,
    originator,
    original_message_id,
    timeouts
from begun
