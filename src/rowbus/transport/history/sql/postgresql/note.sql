-- Note how series stand this minute, where nobody has, and add the same to their hour.
-- Locks the rows it writes, in the order of their keys, and waits for others that note the same; the row count is the
-- number of minutes that were noted.
with minute as (
    insert into :"schema".:"past" as past
    (kind, name, minutes, at, depth, entered, taken, failed, lag)
    select
        found.kind,
        found.name,
        1 as minutes,
        date_trunc('minute', now(), 'UTC') as at,
        found.depth,
        found.entered,
        found.taken,
        found.failed,
        found.lag
    from unnest(
        :'kinds'::text[],
        :'names'::text[],
        :'depths'::bigint[],
        :'entered'::bigint[],
        :'taken'::bigint[],
        :'failed'::bigint[],
        :'lags'::double precision[]
    ) as found (kind, name, depth, entered, taken, failed, lag)
    order by found.name, found.kind
    on conflict do nothing
    returning
        past.kind,
        past.name,
        past.depth,
        past.entered,
        past.taken,
        past.failed,
        past.lag
)

insert into :"schema".:"past" as hour
(kind, name, minutes, at, depth, entered, taken, failed, lag)
select
    minute.kind,
    minute.name,
    60 as minutes,
    date_trunc('hour', now(), 'UTC') as at,
    minute.depth,
    minute.entered,
    minute.taken,
    minute.failed,
    minute.lag
from minute
order by minute.name, minute.kind
on conflict (name, kind, minutes, at) do update
    set
        depth = greatest(hour.depth, excluded.depth),
        entered = coalesce(hour.entered + excluded.entered, hour.entered, excluded.entered),
        taken = coalesce(hour.taken + excluded.taken, hour.taken, excluded.taken),
        failed = coalesce(hour.failed + excluded.failed, hour.failed, excluded.failed),
        lag = greatest(hour.lag, excluded.lag)
