-- Return one operation.
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
where operation.id = :'id'::text
