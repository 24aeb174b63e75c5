-- Store one message until it is due: at an instant, or so many seconds from now by the database's clock (the time of
-- this statement, not of its transaction, which a slow handler began long ago). Seconds, because a day may have 25 hours.
-- Wakes the mover once the transaction commits, if the message is due sooner than any mover looks by itself.
-- Locks no row; returns one row when it notifies, none otherwise.
with message as (
    select coalesce(:'at'::timestamptz, clock_timestamp() + make_interval(secs => :'delay'::float8)) as due
),

stored as (
    insert into :"schema".:"delayed" (headers, body, due)
    select
        :'headers'::text as headers,
        :'body'::bytea as body,
        message.due
    from message
)

select pg_notify(:'channel', '')
from message
where :'notify'::boolean and message.due < clock_timestamp() + interval '1 minute'
