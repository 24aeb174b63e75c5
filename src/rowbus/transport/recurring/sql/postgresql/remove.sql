-- Forget a schedule, which an endpoint that has it notes again when it starts.
-- Locks the row, waiting for a transaction that sends its tick; the row count is the answer: 0 or 1.
delete from :"schema".:"recurring"
where name = :'name'::text
