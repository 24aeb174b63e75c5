-- Find a delayed message, and keep it where it is until the transaction ends.
-- Locks the row, waiting for a mover that is moving it: then it is not there any more. Returns a row when it is there.
select waiting.id::text as row_id
from :"schema".:"delayed" as waiting
where waiting.id = :'row_id'::uuid
for update
