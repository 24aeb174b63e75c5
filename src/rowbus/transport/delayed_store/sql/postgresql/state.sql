-- Count the messages of a store, up to `most`, and those of them that are overdue; say when the first is due.
-- Locks nothing; returns one row: waiting, overdue, next due, and the database's time.
with first as (
    select least(greatest(waiting.time, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as time
    from :"schema".:"store" as waiting
    order by waiting.time
    limit :'most'::integer
)

select
    count(*)::integer as waiting,
    count(*) filter (where first.time <= now())::integer as overdue,
    min(first.time) as next_due,
    clock_timestamp() as at
from first
