-- Move the messages of a claim back to their queue, each to its old place and as it was, and wake the receivers.
-- If the queue was created again meanwhile, a place may be taken; then the message gets a new one. Locks what it
-- moves; the caller has locked the claim. Returns one row with how many there were.
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
    insert into :"schema".:"queue" (id, expires, headers, body, seq)
    select
        returned.row_id,
        returned.expires,
        returned.headers,
        returned.body,
        case
            when exists (select from :"schema".:"queue" as other where other.seq = returned.row_seq)
                then nextval(pg_get_serial_sequence(:'name'::text, 'seq'))::integer
            else returned.row_seq
        end as seq
    from returned
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
