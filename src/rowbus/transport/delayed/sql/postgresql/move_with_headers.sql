-- Move delayed messages, which the caller has locked, to a queue of the same database with other headers than they had.
-- Locks the rows it deletes; returns one row: how many were moved, and nothing that matters.
with moved as (
    delete from :"schema".:"delayed" as taken
    where taken.id = any(:'ids'::uuid[])
    returning taken.id, taken.body
),

sent as (
    insert into :"queue_schema".:"queue" (id, expires, headers, body)
    select
        moved.id,
        null as expires,
        wanted.headers,
        coalesce(moved.body, ''::bytea) as body
    from unnest(:'ids'::uuid[], :'headers'::text[]) with ordinality as wanted (id, headers, position)
    inner join moved on wanted.id = moved.id
    order by wanted.position
)

select
    (select count(*)::integer from moved) as moved,
    case when :'notify'::boolean then pg_notify(:'channel', '') end as notified
