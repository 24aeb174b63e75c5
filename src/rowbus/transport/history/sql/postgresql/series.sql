-- Return the series of some names: points of so many minutes, the latest so many.
-- Locks nothing; returns kind, name, how many points ago, and the figures of each point.
select
    past.kind,
    past.name,
    (
        floor(extract(epoch from now()) / (60 * :'minutes'::integer))
        - floor(extract(epoch from past.at) / (60 * :'minutes'::integer))
    )::integer as ago,
    past.depth,
    past.entered,
    past.taken,
    past.failed,
    past.lag,
    past.durations
from :"schema".:"past" as past
where
    past.name = any(:'names'::text[])
    and past.minutes = :'minutes'::integer
    and past.at > now() - make_interval(mins => (:'points'::integer - 1) * :'minutes'::integer)
    and past.at <= now()
