-- Put one message in the queue and, when asked, wake its receivers once the transaction commits.
-- Locks no row; returns one row when it notifies, none otherwise. The row's id is never the message's id.
with sent as (
    insert into :"schema".:"queue" (id, expires, headers, body)
    values (
        gen_random_uuid(),
        (now() at time zone 'UTC') + :'time_to_be_received'::interval,
        :'headers'::text,
        :'body'::bytea
    )
)

select pg_notify(:'channel', '')
where :'notify'::boolean
