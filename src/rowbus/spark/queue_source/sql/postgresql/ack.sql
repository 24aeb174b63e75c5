-- Note that a consumer has acknowledged its claims up to one, and end those claims.
-- Locks the rows of the consumer and of its claims, waiting for sessions that return one to its queue. Run it once:
-- returns the numbers of those claims, not acknowledged before, that had gone back to the queue.
with before as (
    select coalesce(max(known.acked), 0) as acked
    from rowbus_spark.claim_consumer as known
    where
        known.queue = :'queue'::text
        and known.consumer = :'consumer'::text
),

noted as (
    insert into rowbus_spark.claim_consumer as known (queue, consumer, acked)
    values (:'queue'::text, :'consumer'::text, :'number'::bigint)
    on conflict (queue, consumer) do update
    set acked = greatest(known.acked, excluded.acked)
),

ended as (
    update rowbus_spark.claim
    set
        state = case when archive then 'archived' else 'acked' end,
        ended_at = now()
    where
        queue = :'queue'::text
        and consumer = :'consumer'::text
        and number <= :'number'::bigint
        and state = 'held'
    returning number
)

select claim.number
from rowbus_spark.claim
cross join before
where
    claim.queue = :'queue'::text
    and claim.consumer = :'consumer'::text
    and claim.number > before.acked
    and claim.number <= :'number'::bigint
    and claim.number not in (select ended.number from ended)
order by claim.number
