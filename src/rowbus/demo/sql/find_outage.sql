-- Find out whether the bank of a card is down for a charge that has been retried later so many times.
-- Locks nothing; returns one row if so, else none.
select outages.token
from rowbus_demo.outages
where
    outages.token = :'token'::text
    and outages.mended_at is null
    and (outages.retries is null or outages.retries > :'retries'::integer)
