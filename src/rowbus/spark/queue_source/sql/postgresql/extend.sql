-- Extend the leases of all that a consumer holds.
-- Locks the rows of its claims, waiting for whoever is just putting one back; the row count is the answer.
update rowbus_spark.claim
set lease_until = now() + :'lease'::interval
where
    queue = :'queue'::text
    and consumer = :'consumer'::text
    and state = 'held'
