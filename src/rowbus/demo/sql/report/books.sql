-- Say how many events Bookkeeping has booked, in how many batches, and how far behind it was: the median, in seconds.
-- Locks nothing; returns one row.
select
    coalesce(sum(events), 0)::bigint as events,
    count(*) as batches,
    coalesce(
        extract(epoch from percentile_cont(0.5) within group (order by behind)), 0
    )::double precision as behind
from rowbus_demo.books
