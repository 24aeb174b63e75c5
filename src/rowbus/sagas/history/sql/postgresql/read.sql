-- Read what the sagas did that have an id, or were found by a text: several if one began after another had completed.
-- Locks nothing; finds them by two indexes. Returns a row for each transition, the oldest first.
select
    line.saga_id::text,
    line.number,
    line.correlation,
    line.message_id,
    line.message_type,
    line.before::text as before,
    line.after::text as after,
    line.is_completed,
    line.at
from :"schema".:"history" as line
where line.correlation = :'key'::text or line.saga_id = :'id'::uuid
order by line.at, line.number
