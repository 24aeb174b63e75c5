-- List an endpoint's running work, the oldest first: all of it, or that of the message of an id, as JSON.
-- Locks nothing; returns a row each: headers, id, process (null: it waits for one), since when, failures,
-- progress from 0 to 1, note, and who has cancelled it.
select
    known.headers,
    known.id::text as id,
    case when known.lease > clock_timestamp() then known.process end as process,
    known.since,
    known.failures,
    known.progress,
    known.note,
    known.cancelled_by
from :"schema".:"running" as known
where
    :'quoted_id'::text is null
    or strpos(known.headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
    or strpos(known.headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
    or '"' || known.id::text || '"' = :'quoted_id'::text
order by known.seq
