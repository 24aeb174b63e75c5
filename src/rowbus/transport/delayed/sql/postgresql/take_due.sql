-- Take hold of the messages that have been due the longest and that no other mover has in its hands, to move them in
-- this transaction. Locks their rows, passing over locked ones, so it never waits.
-- Returns id, headers, up to their first 1,048,576 characters, and time, in microseconds since 1970 (-2^62: before any
-- time), of at most `batch_size` messages, in the order in which they became due.
select
    waiting.id::text as id,
    left(waiting.headers, 1048576) as headers,
    case
        when isfinite(waiting.due) then (extract(epoch from waiting.due) * 1000000)::bigint
        else -4611686018427387904
    end as moment
from :"schema".:"delayed" as waiting
where waiting.due <= now()
order by waiting.due
limit :'batch_size'::integer
for update skip locked
