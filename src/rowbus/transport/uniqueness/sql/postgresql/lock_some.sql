-- Lock up to `batch_size` claims that are older than a minute, in the order of their values, from the first after a value.
-- Locks the rows and passes over locked ones, so it never waits. Returns their values, in that order.
select held.value
from :"schema".:"claims" as held
where held.value > :'after'::text and held.claimed_at < clock_timestamp() - interval '1 minute'
order by held.value
limit :'batch_size'::integer
for update skip locked
