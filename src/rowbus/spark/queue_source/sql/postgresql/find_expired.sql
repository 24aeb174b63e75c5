-- Find a claim whose lease is over, the oldest, leaving out some and those of one consumer.
-- Locks its row until the transaction ends, passing over those that somebody else is just looking after.
-- Returns at most one row: id, queue, consumer, number.
select
    claim.id,
    claim.queue,
    claim.consumer,
    claim.number
from rowbus_spark.claim
where
    claim.state = 'held'
    and claim.lease_until < now()
    and claim.id <> all(:'but'::bigint[])
    and (claim.queue, claim.consumer) is distinct from (:'queue'::text, :'consumer'::text)
order by claim.id
limit 1
for update skip locked
