-- Move delayed messages, which the caller has locked, to a queue of the same database, in the order of the array, and
-- wake its receivers once the transaction commits. `mark` is the header that named the queue: it has done its work.
-- Locks the rows it deletes; returns one row: how many were moved, and nothing that matters.
with moved as (
    delete from :"schema".:"delayed" as taken
    where taken.id = any(:'ids'::uuid[])
    returning taken.id, taken.headers, taken.body
),

sent as (
    insert into :"queue_schema".:"queue" (id, expires, headers, body)
    select
        moved.id,
        null as expires,
        replace(moved.headers, :'mark'::text, '') as headers,
        moved.body
    from unnest(:'ids'::uuid[]) with ordinality as wanted (id, position)
    inner join moved on wanted.id = moved.id
    order by wanted.position
)

select
    (select count(*)::integer from moved) as moved,
    case when :'notify'::boolean then pg_notify(:'channel', '') end as notified
