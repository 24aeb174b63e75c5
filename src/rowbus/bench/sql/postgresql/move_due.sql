-- Move a batch of due messages to one queue, as one would by hand: in the order of their time, in one statement.
-- Locks the rows it moves and passes over those that others have locked; returns nothing, the count is that of its rows.
with due as (
    select waiting.id
    from :"schema".:"table" as waiting
    where waiting.due <= now()
    order by waiting.due
    limit :'batch_size'::integer
    for update skip locked
),

taken as (
    delete from :"schema".:"table" as waiting
    where waiting.id in (select due.id from due)
    returning
        waiting.id,
        waiting.headers,
        waiting.body
)

insert into :"schema".:"queue" (id, headers, body)
select
    taken.id,
    taken.headers,
    taken.body
from taken
