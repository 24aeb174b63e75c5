-- Count the messages that are due from one instant (null: the first) until before another (null: the last), up to `most`.
-- Reads the index of times. Locks nothing; returns one row with one number.
select count(*)::integer as found
from (
    select waiting.due
    from :"schema".:"delayed" as waiting
    where
        waiting.due >= coalesce(:'first'::timestamptz, '-infinity')
        and waiting.due < coalesce(:'last'::timestamptz, 'infinity')
    order by waiting.due
    limit :'most'::integer
) as counted
