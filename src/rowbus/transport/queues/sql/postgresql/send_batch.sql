-- Put several messages in the queue in the order of the arrays and, when asked, wake its receivers once.
-- Locks no row; returns one row when it notifies, none otherwise.
with sent as (
    insert into :"schema".:"queue" (id, expires, headers, body)
    select
        gen_random_uuid() as id,
        (now() at time zone 'UTC') + message.time_to_be_received as expires,
        message.headers,
        message.body
    from
        unnest(:'times_to_be_received'::interval[], :'headers'::text[], :'bodies'::bytea[])
        with ordinality as message (time_to_be_received, headers, body, position)
    order by message.position
)

select pg_notify(:'channel', '')
where :'notify'::boolean
