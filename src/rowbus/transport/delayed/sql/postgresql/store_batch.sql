-- Store several messages, each until it is due (see store.sql), in the order of the arrays: of two with the same delay
-- the first is due first, by a microsecond or so. Wakes the mover once if one is due soon.
-- Locks no row; returns one row when it notifies, none otherwise.
with message as (
    select
        given.headers,
        given.body,
        coalesce(
            given.at,
            statement_timestamp()
            + given.delay * interval '1 second'
            + given.position * interval '1 microsecond'
        ) as due,
        given.position
    from
        unnest(
            :'headers'::text[],
            :'bodies'::bytea[],
            :'delays'::text[]::double precision[],
            :'ats'::text[]::timestamptz[]
        ) with ordinality as given (headers, body, delay, at, position)
),

stored as (
    insert into :"schema".:"delayed" (headers, body, due)
    select
        message.headers,
        message.body,
        message.due
    from message
    order by message.position
)

select pg_notify(:'channel', '')
where :'notify'::boolean and exists (
    select from message
    where message.due < clock_timestamp() + interval '1 minute'
)
