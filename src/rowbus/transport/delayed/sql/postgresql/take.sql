-- Take hold of a message before it is due, to move it in this transaction: the one with this id in its headers, as compact
-- or spaced JSON. Reads the whole table: headers have no index.
-- Locks its row, passing over one that a mover has in its hands, so it never waits. Returns its id and headers, up to their
-- first 1,048,576 characters; no row when it is not there or not free.
select
    waiting.id::text as id,
    left(waiting.headers, 1048576) as headers
from :"schema".:"delayed" as waiting
where
    strpos(waiting.headers, '"NServiceBus.MessageId":' || :'quoted_id'::text) > 0
    or strpos(waiting.headers, '"NServiceBus.MessageId": ' || :'quoted_id'::text) > 0
order by waiting.due
for update skip locked
