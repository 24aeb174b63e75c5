-- Move what an operation discarded of a queue back to it.
-- Locks the rows it deletes, and waits for who has them; returns one row: how many messages came back.
with gone as (
    delete from :"schema".:"discarded" as kept
    where kept.operation = :'operation'::text and kept.queue = :'queue_name'::text
    returning kept.id, kept.headers, kept.body, kept.discarded
),

back as (
    insert into :"queue_schema".:"queue" (id, headers, body)
    select
        gone.id,
        gone.headers,
        gone.body
    from gone
    order by gone.discarded
)

select count(*)::integer as moved from gone
