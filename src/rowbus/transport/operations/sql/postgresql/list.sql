-- Return the latest operations, the latest first.
-- Locks nothing; returns the columns of the table in their order.
select
    operation.id,
    operation.person,
    operation.action,
    operation.queue,
    operation.subject,
    operation.meant,
    operation.done,
    operation.stayed,
    operation.state,
    operation.result,
    operation.began,
    operation.noted
from :"schema".:"operations" as operation
order by operation.began desc
limit :'most'::integer
