-- Count the delayed messages of a table, up to `most`, and those of them that are overdue; say when the first is due.
-- Locks nothing; returns one row: waiting, overdue, next due, and the database's time.
with first as (
    select least(greatest(waiting.due, '0001-01-02 00:00+00'), '9999-12-31 00:00+00') as due
    from :"schema".:"delayed" as waiting
    order by waiting.due
    limit :'most'::integer
)

select
    count(*)::integer as waiting,
    count(*) filter (where first.due <= now())::integer as overdue,
    min(first.due) as next_due,
    clock_timestamp() as at
from first
