-- Look for one message by its id, in flight or not: its headers may have changed and its position with them.
-- Locks nothing; returns at most one row: headers, position.
select
    message.headers,
    message.seq
from :"schema".:"queue" as message
where message.id = :'row_id'::uuid
