-- Move those due messages that go where the last ones went, in one statement: the first `batch_size` that are due and
-- that are not in flight, in the order of their time, if `mark`, the header that names the queue, is in their headers.
-- Locks these messages, passing over locked ones, so it never waits; wakes the queue's receivers at the commit.
-- Returns one row: how many were due, how many of them were moved, and nothing that matters.
with due as (
    select waiting.id
    from :"schema".:"delayed" as waiting
    where waiting.due <= now()
    order by waiting.due
    limit :'batch_size'::integer
    for update skip locked
),

moved as (
    delete from :"schema".:"delayed" as taken
    where
        taken.id = any(array(select due.id from due))
        and strpos(taken.headers, :'mark'::text) > 0
    returning taken.id, taken.headers, taken.body, taken.due
),

sent as (
    insert into :"queue_schema".:"queue" (id, expires, headers, body)
    select
        moved.id,
        null as expires,
        replace(moved.headers, :'mark'::text, '') as headers,
        moved.body
    from moved
    order by moved.due
)

select
    (select count(*)::integer from due) as due,
    (select count(*)::integer from moved) as moved,
    case when :'notify'::boolean and exists (select from moved) then pg_notify(:'channel', '') end as notified
