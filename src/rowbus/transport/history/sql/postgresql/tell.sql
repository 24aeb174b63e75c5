-- Add what a process handled to this minute and this hour of a series.
-- Locks the two rows, the minute first, and waits for others that add to them; the row count is the answer.
insert into :"schema".:"past" as past (kind, name, minutes, at, failed, durations)
select
    :'kind'::text as kind,
    :'name'::text as name,
    span.minutes,
    date_trunc(span.unit, now(), 'UTC') as at,
    :'failed'::bigint as failed,
    :'durations'::bigint[] as durations
from (values (1, 'minute'), (60, 'hour')) as span (minutes, unit)
order by span.minutes
on conflict (name, kind, minutes, at) do update
    set
        failed = past.failed + excluded.failed,
        durations = array(
            select coalesce(told.older, 0) + coalesce(told.newer, 0)
            from unnest(past.durations, excluded.durations) -- noqa: RF01
                with ordinality as told (older, newer, step)
            order by told.step
        )
