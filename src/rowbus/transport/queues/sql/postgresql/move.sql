-- Move messages to another queue of the same database with other headers than they had, in the order of the array, and
-- wake its receivers once the transaction commits. The bodies stay in the database, however large they are.
-- Locks the rows it deletes and passes over those in flight, so it never waits.
-- Returns one row: how many were moved, and nothing that matters.
with moved as (
    delete from :"schema".:"queue" as taken
    where taken.id = any(array(
        select message.id
        from :"schema".:"queue" as message
        where message.id = any(:'ids'::uuid[])
        for update skip locked
    ))
    returning taken.id, taken.body
),

sent as (
    insert into :"to_schema".:"to_queue" (id, expires, headers, body)
    select
        gen_random_uuid() as id,
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
