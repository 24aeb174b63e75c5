-- Find the saga that a message is correlated with, and keep others from it until the transaction ends.
-- Locks its row, and waits for one who holds it. Returns its row, none if there is no such saga.
select
    id::text,
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
