-- Say when the earliest message is due, also when it is in flight.
-- Locks nothing; returns one row with one timestamptz, NULL when nothing is kept.
select (
    select delayed.time
    from :"schema".:"store" as delayed
    order by delayed.time
    limit 1
)
