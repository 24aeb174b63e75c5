-- Claim a value for a message, and store the message until it is due unless the value has been claimed before: see send.sql,
-- and the store.sql of delayed messages. Wakes the mover at the commit when the message is due soon.
-- Locks the value's row, waiting for a transaction that has claimed it and not ended. Returns what send.sql returns.
with message as (
    select coalesce(:'at'::timestamptz, clock_timestamp() + make_interval(secs => :'delay'::float8)) as due
),

claimed as (
    insert into :"schema".:"claims" as held (value, row_id, message_id, is_delayed, free_at, claimed_at)
    values (
        :'value'::text,
        :'row_id'::uuid,
        :'message_id'::text,
        true,
        clock_timestamp() + :'within'::interval,
        clock_timestamp()
    )
    on conflict (value) do update set value = excluded.value
    returning held.row_id, held.message_id, held.is_delayed, held.free_at
),

stored as (
    insert into :"schema".:"delayed" (id, headers, body, due)
    select
        claimed.row_id,
        :'headers'::text as headers,
        :'body'::bytea as body,
        message.due
    from claimed
    cross join message
    where claimed.row_id = :'row_id'::uuid
)

select
    claimed.row_id::text as row_id,
    claimed.message_id,
    claimed.is_delayed,
    claimed.free_at is not null as is_timed,
    coalesce(claimed.free_at > clock_timestamp(), false) as is_open,
    case
        when
            :'notify'::boolean
            and claimed.row_id = :'row_id'::uuid
            and message.due < clock_timestamp() + interval '1 minute'
            then pg_notify(:'channel', '')
    end as notified
from claimed
cross join message
