-- Put several messages in the queue in the order of the arrays and, when asked, wake its receivers once.
-- Locks no row; returns one row when it notifies, none otherwise. The ids of the rows are made by the caller: the server
-- would ask its source of random numbers for each. They are never the messages' ids.
with sent as (
    insert into :"schema".:"queue" (id, expires, headers, body)
    select
        message.id,
        (now() at time zone 'UTC') + message.time_to_be_received as expires,
        message.headers,
        message.body
    from
        unnest(
            :'ids'::uuid[],
            :'times_to_be_received'::text[]::interval[],
            :'headers'::text[],
            :'bodies'::bytea[]
        )
        with ordinality as message (id, time_to_be_received, headers, body, position)
    order by message.position
)

select pg_notify(:'channel', '')
where :'notify'::boolean
