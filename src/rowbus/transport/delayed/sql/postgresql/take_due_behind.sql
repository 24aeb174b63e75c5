-- Take hold of due messages as take_due.sql does, but for those that are passed over: what became due before `moment`,
-- in microseconds since 1970, and these ids, which became due at that moment.
-- Locks the rows of the others, passing over locked ones, so it never waits. Returns what take_due.sql does.
select
    waiting.id::text as id,
    left(waiting.headers, 1048576) as headers,
    case
        when isfinite(waiting.due) then (extract(epoch from waiting.due) * 1000000)::bigint
        else -4611686018427387904
    end as moment
from :"schema".:"delayed" as waiting
where
    waiting.due <= now()
    and waiting.due >= case
        when :'moment'::bigint = -4611686018427387904 then '-infinity'::timestamptz
        else 'epoch'::timestamptz + :'moment'::bigint * interval '1 microsecond'
    end
    and waiting.id <> all(:'ids'::uuid[])
order by waiting.due
limit :'batch_size'::integer
for update skip locked
