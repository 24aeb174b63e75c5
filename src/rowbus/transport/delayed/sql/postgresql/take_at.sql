-- Take hold of a message whose time is known before it is due, to move it in this transaction: the one with this id in its
-- headers that is due at this instant, or within the ten milliseconds after it that databases may round up by.
-- Finds it by the index of times. Locks its row, passing over one that a mover has in its hands, so it never waits. Returns
-- its id and headers, up to their first 1,048,576 characters; no row when it is not there or not free.
select
    waiting.id::text as id,
    left(waiting.headers, 1048576) as headers
from :"schema".:"delayed" as waiting
where
    waiting.due between :'at'::timestamptz and :'at'::timestamptz + interval '10 milliseconds'
    and (
        strpos(waiting.headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
        or strpos(waiting.headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
    )
order by waiting.due
for update skip locked
