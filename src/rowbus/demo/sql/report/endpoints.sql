-- How many messages each endpoint has handled, and how fast in the rush (in all, if there was none).
-- Locks nothing; returns rows of endpoint, messages, messages of the rush, its seconds.
select
    handled.endpoint,
    count(*) as messages,
    count(*) filter (where handled.at >= rush.began) as in_rush,
    extract(epoch from max(handled.at) - max(rush.began))::float8 as seconds
from rowbus_demo.handled
cross join (
    select coalesce(min(read_at) filter (where rush), min(read_at)) as began
    from rowbus_demo.lines
) as rush
group by handled.endpoint
order by handled.endpoint
