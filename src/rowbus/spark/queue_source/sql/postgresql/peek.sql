-- Look at the messages in some blocks of a queue's table without taking them, locked ones included.
-- Locks nothing; returns id, expires (UTC), headers, body, seq of each. No parameters, so that COPY can run it.
select
    message.id::text as id,
    message.expires at time zone 'UTC' as expires,
    message.headers,
    message.body,
    message.seq::bigint as seq
from :"schema".:"queue" as message
where
    message.ctid >= :'first'::tid
    and message.ctid < :'end'::tid
