-- List an endpoint's running work, the oldest first: all of it, or that of the message of an id.
-- Locks nothing; returns a row each: message id, types, process (null: it waits for one), since when, failures,
-- progress from 0 to 1, note, and who has cancelled it.
select
    coalesce(known.headers::jsonb ->> 'NServiceBus.MessageId', known.id::text) as message_id,
    coalesce(known.headers::jsonb ->> 'NServiceBus.EnclosedMessageTypes', '') as types,
    case when known.lease > clock_timestamp() then known.process end as process,
    known.since,
    known.failures,
    known.progress,
    known.note,
    known.cancelled_by
from :"schema".:"running" as known
where
    :'message_id'::text is null
    or known.headers::jsonb ->> 'NServiceBus.MessageId' = :'message_id'::text
    or known.id::text = :'message_id'::text
order by known.seq
