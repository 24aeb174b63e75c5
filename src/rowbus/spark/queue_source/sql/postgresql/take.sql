-- Move the oldest unlocked messages out of the queue and into a new claim, oldest first, in one transaction.
-- Locks the rows it deletes and passes over locked ones, so it never waits. Expired messages are deleted and not
-- delivered, as every receiver does. Without messages there is no claim. A limit of null is none; `last` likewise.
-- Returns one row: how many it took out of the queue, and how many of them are in the claim.
with taken as (
    delete from :"schema".:"queue" as message
    where message.id = any(array(
        select waiting.id
        from :"schema".:"queue" as waiting
        where waiting.seq <= coalesce(:'last'::integer, 2147483647)
        order by waiting.seq
        limit :'most'::bigint
        for update skip locked
    ))
    returning
        message.id,
        message.expires,
        message.headers,
        message.body,
        message.seq
),

live as (
    select
        taken.*,
        row_number() over (order by taken.seq) as position
    from taken
    where coalesce(taken.expires > now() at time zone 'UTC', true)
),

claim as (
    insert into rowbus_spark.claim (queue, consumer, number, messages, archive, lease_until)
    select
        :'queue'::text as queue,
        :'consumer'::text as consumer,
        :'number'::bigint as number,
        count(*) as messages,
        :'archive'::boolean as archive,
        now() + :'lease'::interval as lease_until
    from live
    having count(*) > 0
    returning id
),

stored as (
    insert into rowbus_spark.claimed_message (claim_id, position, row_id, expires, headers, body, row_seq)
    select
        claim.id as claim_id,
        live.position,
        live.id as row_id,
        live.expires,
        live.headers,
        live.body,
        live.seq as row_seq
    from live
    cross join claim
)

select
    (select count(*) from taken) as taken,
    (select count(*) from live) as claimed
