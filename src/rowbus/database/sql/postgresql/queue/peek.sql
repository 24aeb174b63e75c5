-- Look at the oldest messages without taking them, those in a receiver's hands included.
-- Locks nothing; returns id, expires, headers, body, seq of at most `most` messages, oldest first.
select
    message.id::text as id,
    message.expires at time zone 'UTC' as expires,
    message.headers,
    message.body,
    message.seq
from :"schema".:"queue" as message
order by message.seq
limit :'most'::integer
