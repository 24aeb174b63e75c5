-- Begin keys that have no row, with all the tokens that they can have.
-- Locks the rows it writes, waiting for others who begin the same keys; the row count is the answer.
insert into :"schema".:"limits" (key, arrival, next_waited, next_fresh)
select
    given.key,
    clock_timestamp() as arrival,
    clock_timestamp() as next_waited,
    clock_timestamp() as next_fresh
from unnest(:'keys'::text[]) as given (key)
order by given.key
on conflict (key) do nothing
