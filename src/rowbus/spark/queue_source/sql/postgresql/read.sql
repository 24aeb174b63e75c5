-- Read a slice of a claim, oldest message first: the positions after one up to another.
-- Locks nothing; returns id, expires (UTC), headers, body, seq of each. No parameters, so that COPY can run it.
select
    message.row_id::text as id,
    message.expires at time zone 'UTC' as expires,
    message.headers,
    message.body,
    message.row_seq::bigint as seq
from rowbus_spark.claimed_message as message
where
    message.claim_id = (
        select claim.id
        from rowbus_spark.claim
        where
            claim.queue = :'queue'
            and claim.consumer = :'consumer'
            and claim.number = :'number'
    )
    and message.position > :'after'
    and message.position <= :'upto'
order by message.position
