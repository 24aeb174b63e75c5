-- Free the number of a claim that went back to the queue before Spark planned a batch with it.
-- Locks the claim's row; the row count is the answer.
delete from rowbus_spark.claim
where
    queue = :'queue'::text
    and consumer = :'consumer'::text
    and number = :'number'::bigint
    and state = 'returned'
