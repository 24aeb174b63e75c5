-- Have a schedule wait for its next tick, if it still waits for the one expected: in the transaction that sends that one.
-- Locks the row; passes over it when another transaction has it locked, so it never waits. The row count is the answer:
-- 1, or 0 when another transaction sends, or has sent, this tick.
with free as (
    select known.name
    from :"schema".:"recurring" as known
    where
        known.name = :'name'::text
        and known.schedule = :'schedule'::text
        and known.next_due = :'expected'::timestamptz
    for update skip locked
)

update :"schema".:"recurring" as advanced
set
    next_due = :'following'::timestamptz,
    last_sent = coalesce(:'sent'::timestamptz, advanced.last_sent)
from free
where advanced.name = free.name
