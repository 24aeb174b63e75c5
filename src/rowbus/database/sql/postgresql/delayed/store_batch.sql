-- Store several messages, each until it is due (see store.sql), in the order of the arrays: of two with the same delay
-- the first is due first, by a microsecond or so. Wakes the mover once if one is due soon.
-- Locks no row; returns one row when it notifies, none otherwise.
with stored as (
    insert into :"schema".:"delayed" (headers, body, due)
    select
        message.headers,
        message.body,
        coalesce(
            message.at,
            clock_timestamp()
            + message.delay * interval '1 second'
            + message.position * interval '1 microsecond'
        ) as due
    from
        unnest(
            :'headers'::text[], :'bodies'::bytea[], :'delays'::double precision[], :'ats'::timestamptz[]
        ) with ordinality as message (headers, body, delay, at, position)
    order by message.position
    returning due
)

select pg_notify(:'channel', '')
where :'notify'::boolean and exists(
    select from stored
    where stored.due < clock_timestamp() + interval '1 minute'
)
