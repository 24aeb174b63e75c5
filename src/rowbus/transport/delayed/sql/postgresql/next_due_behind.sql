-- Say in how many seconds the next message is due, as next_due.sql does, but for those that are passed over: what became
-- due before `moment`, in microseconds since 1970, and these ids.
-- Locks nothing; returns one row with one number, no row when there is no other message.
select (extract(epoch from waiting.due) - extract(epoch from clock_timestamp()))::double precision as seconds
from :"schema".:"delayed" as waiting
where
    waiting.due >= case
        when :'moment'::bigint = -4611686018427387904 then '-infinity'::timestamptz
        else 'epoch'::timestamptz + :'moment'::bigint * interval '1 microsecond'
    end
    and waiting.id <> all(:'ids'::uuid[])
order by waiting.due
limit 1
