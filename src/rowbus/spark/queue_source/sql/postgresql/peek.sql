-- Look at the messages in some blocks of a queue's table without taking them, locked ones included.
-- A condition that is NULL is none: PostgreSQL's planner removes it. The last two are on what headers hold; they leave out
-- only messages whose headers have no escapes, and TimeSent once, in the form in which it is written.
-- Locks nothing; returns id, expires (UTC), headers, body, seq of each. No parameters, so that COPY can run it.
select
    message.id::text as id,
    message.expires at time zone 'UTC' as expires,
    message.headers,
    message.body,
    message.seq::bigint as seq
from :"schema".:"queue" as message
where
    message.ctid >= :'first'::tid
    and message.ctid < :'end'::tid
    and (:'seq_least'::bigint is null or message.seq >= :'seq_least'::bigint)
    and (:'seq_most'::bigint is null or message.seq <= :'seq_most'::bigint)
    and (:'seq_one_of'::bigint[] is null or message.seq = any(:'seq_one_of'::bigint[]))
    and (:'seq_null'::boolean is null or (message.seq is null) = :'seq_null'::boolean)
    and (
        :'expires_least'::timestamptz is null
        or message.expires at time zone 'UTC' >= :'expires_least'::timestamptz
    )
    and (
        :'expires_most'::timestamptz is null
        or message.expires at time zone 'UTC' <= :'expires_most'::timestamptz
    )
    and (
        :'expires_one_of'::timestamptz[] is null
        or message.expires at time zone 'UTC' = any(:'expires_one_of'::timestamptz[])
    )
    and (:'expires_null'::boolean is null or (message.expires is null) = :'expires_null'::boolean)
    and (
        :'texts'::text[] is null
        or strpos(message.headers, e'\\') > 0
        or exists (
            select from unnest(:'texts'::text[]) as t (searched)
            where strpos(message.headers, t.searched) > 0
        )
    )
    and (
        (:'sent_least'::numeric is null and :'sent_most'::numeric is null)
        or strpos(message.headers, e'\\') > 0
        or regexp_count(message.headers, e'"NServiceBus\\.TimeSent"') <> 1
        or coalesce(
            translate(
                substring(message.headers from e'"NServiceBus\\.TimeSent"\\s*:\\s*"([0-9][0-9: -]{26}Z)"'),
                ': -Z', ''
            )::numeric between coalesce(:'sent_least'::numeric, 0) and coalesce(:'sent_most'::numeric, 1e20),
            true
        )
    )
