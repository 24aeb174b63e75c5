-- Extend the leases of all claims that a consumer holds.
-- Locks the rows of its claims, waiting for sessions that return one to its queue; the row count is the answer.
update rowbus_spark.claim
set lease_until = now() + :'lease'::interval
where
    queue = :'queue'::text
    and consumer = :'consumer'::text
    and state = 'held'
