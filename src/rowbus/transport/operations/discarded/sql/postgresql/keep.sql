-- Move rows of a queue to the table of discarded messages.
-- Locks the rows it deletes and passes over those in flight, so it never waits; the row count is the answer.
with gone as (
    delete from :"queue_schema".:"queue" as taken
    where taken.id = any(array(
        select message.id
        from :"queue_schema".:"queue" as message
        where message.id = any(:'row_ids'::uuid[])
        for update skip locked
    ))
    returning taken.id, taken.headers, taken.body
)

insert into :"schema".:"discarded" (operation, id, queue, headers, body)
select
    :'operation'::text as operation,
    gone.id,
    :'queue_name'::text as queue,
    gone.headers,
    gone.body
from gone
