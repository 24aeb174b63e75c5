-- Move the messages of a claim back to their queue, as they were and in their order, and wake the receivers. They get new
-- places at its end: who may send may not choose one, and receivers look there first. Locks what it moves; the caller
-- has locked the claim. Returns one row with how many there were.
with returned as (
    delete from rowbus_spark.claimed_message
    where claim_id = :'claim_id'::bigint
    returning
        row_id,
        expires,
        headers,
        body,
        row_seq
),

sent as (
    insert into :"schema".:"queue" (id, expires, headers, body)
    select
        returned.row_id,
        returned.expires,
        returned.headers,
        returned.body
    from returned
    order by returned.row_seq
),

ended as (
    update rowbus_spark.claim
    set
        state = 'returned',
        ended_at = now()
    where id = :'claim_id'::bigint
)

select
    count(*)::bigint as messages,
    pg_notify(:'channel', '') as woken
from returned
