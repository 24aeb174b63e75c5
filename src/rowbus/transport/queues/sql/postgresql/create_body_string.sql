-- Add the readable copy of the body, a stored generated column; it doubles the write volume of the queue.
-- Rewrites the table under an exclusive lock; the caller holds the advisory lock of `lock_body_string.sql`.
-- Returns nothing.
alter table :"schema".:"queue"
add column if not exists bodystring text generated always as (encode(body, 'escape')) stored
