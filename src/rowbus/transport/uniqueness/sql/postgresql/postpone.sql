-- Have a delayed message, which this transaction has locked, become due later; it never becomes due sooner.
-- Locks the row; the row count is the answer.
update :"schema".:"delayed" as waiting
set due = greatest(
    waiting.due, coalesce(:'at'::timestamptz, clock_timestamp() + make_interval(secs => :'delay'::float8))
)
where waiting.id = :'row_id'::uuid
