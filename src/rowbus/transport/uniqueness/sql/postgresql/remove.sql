-- Delete a message that this transaction has locked where it waits: in the queue, or among the delayed ones.
-- Locks the row; the row count is the answer.
delete from :"schema".:"place" as waiting
where waiting.id = :'row_id'::uuid
