-- Delete what a consumer has acknowledged and need not keep, except its last claim: a checkpoint that lost its newest entry in a power
-- cut replays that one. Locks the rows it deletes; returns nothing.
with pruned as (
    delete from rowbus_spark.claim
    where
        queue = :'queue'::text
        and consumer = :'consumer'::text
        and number < :'number'::bigint
        and state in ('acked', 'returned')
    returning id
)

delete from rowbus_spark.claimed_message
where claim_id in (select pruned.id from pruned)
