-- Say when the earliest message is due, also when it is in flight.
-- Locks nothing; returns one row with one timestamptz, NULL when nothing is kept.
select (
    select least(greatest(delayed.time, '0001-01-02 00:00+00'), '9999-12-31 00:00+00')
    from :"schema".:"store" as delayed
    order by delayed.time
    limit 1
)
