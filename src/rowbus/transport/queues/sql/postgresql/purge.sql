-- Delete every message of the queue.
-- Locks each row it deletes and waits for receivers that have messages in hand; the row count is the answer.
delete from :"schema".:"queue"
