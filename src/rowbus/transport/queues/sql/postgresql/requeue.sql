-- Put one message at the end of its queue again, with other headers than it had: the same id, body and time to be
-- received, a new position. It is found by its id and its position, so that one that was put back meanwhile stays.
-- Locks the row and passes over one in flight, so it never waits; wakes receivers once the transaction commits.
-- Returns one row: how many were put back, and nothing that matters.
with taken as (
    delete from :"schema".:"queue" as taken
    where taken.id = (
        select message.id
        from :"schema".:"queue" as message
        where message.id = :'row_id'::uuid and message.seq = :'position'::integer
        for update skip locked
    )
    returning taken.id, taken.expires, taken.body
),

sent as (
    insert into :"schema".:"queue" (id, expires, headers, body)
    select
        taken.id,
        taken.expires,
        :'headers'::text as headers,
        taken.body
    from taken
)

select
    (select count(*)::integer from taken) as requeued,
    case when :'notify'::boolean then pg_notify(:'channel', '') end as notified
