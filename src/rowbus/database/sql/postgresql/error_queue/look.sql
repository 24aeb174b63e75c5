-- Look at one row without taking it, be it in somebody's hands.
-- Locks nothing; returns id, expires, headers, body, seq of at most one message.
select
    message.id::text as id,
    message.expires at time zone 'UTC' as expires,
    message.headers,
    message.body,
    message.seq
from :"schema".:"queue" as message
where message.id = :'row_id'::uuid
