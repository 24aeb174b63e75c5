-- Have the next tick of a schedule be due now, unless it is already.
-- Locks the row, waiting for a transaction that sends its tick; the row count is the answer: 0 or 1.
update :"schema".:"recurring" as hastened
set next_due = least(hastened.next_due, clock_timestamp())
where hastened.name = :'name'::text
