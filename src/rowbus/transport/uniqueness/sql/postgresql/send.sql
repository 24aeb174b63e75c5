-- Claim a value for a message, and put the message in the queue unless the value has been claimed before: `within` is for
-- how long, null for as long as the message waits. Wakes receivers at the commit.
-- Locks the value's row, waiting for a transaction that has claimed it and not ended. Returns one row: whose message has the
-- value (row_id is the one given: this one's, and it is sent), message_id, is_delayed, is_timed, is_open.
with claimed as (
    insert into :"schema".:"claims" as held (value, row_id, message_id, is_delayed, free_at, claimed_at)
    values (
        :'value'::text,
        :'row_id'::uuid,
        :'message_id'::text,
        false,
        clock_timestamp() + :'within'::interval,
        clock_timestamp()
    )
    on conflict (value) do update set value = excluded.value
    returning held.row_id, held.message_id, held.is_delayed, held.free_at
),

sent as (
    insert into :"schema".:"queue" (id, expires, headers, body)
    select
        claimed.row_id,
        (now() at time zone 'UTC') + :'time_to_be_received'::interval as expires,
        :'headers'::text as headers,
        :'body'::bytea as body
    from claimed
    where claimed.row_id = :'row_id'::uuid
)

select
    claimed.row_id::text as row_id,
    claimed.message_id,
    claimed.is_delayed,
    claimed.free_at is not null as is_timed,
    coalesce(claimed.free_at > clock_timestamp(), false) as is_open,
    case
        when :'notify'::boolean and claimed.row_id = :'row_id'::uuid then pg_notify(:'channel', '')
    end as notified
from claimed
