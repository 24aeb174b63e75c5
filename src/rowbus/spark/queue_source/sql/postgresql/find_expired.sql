-- Find the oldest claim whose lease ended, except some ids and those of one consumer.
-- Locks its row until the transaction ends, skipping those that another session has locked.
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
