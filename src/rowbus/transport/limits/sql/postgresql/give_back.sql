-- Give tokens back that were taken and not used: `seconds` is how long each key's tokens take to come.
-- Locks the keys' rows, in the order of the keys, waiting for others who take of them; the row count is the answer.
with held as materialized (
    select bucket.key
    from :"schema".:"limits" as bucket
    where bucket.key = any(:'keys'::text[])
    order by bucket.key
    for update
)

update :"schema".:"limits" as bucket
set arrival = bucket.arrival - make_interval(secs => given.seconds)
from held
inner join unnest(:'keys'::text[], :'seconds'::float8[]) as given (key, seconds) on held.key = given.key
where bucket.key = held.key
