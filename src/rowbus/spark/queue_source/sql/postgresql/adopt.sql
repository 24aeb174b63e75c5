-- Take up a claim that a crash left between the claiming and Spark's offset log, and extend its lease.
-- Locks the claim's row; returns its size, or no row when there is no such claim or it went back to the queue.
update rowbus_spark.claim
set lease_until = now() + :'lease'::interval
where
    queue = :'queue'::text
    and consumer = :'consumer'::text
    and number = :'number'::bigint
    and state = 'held'
returning messages
