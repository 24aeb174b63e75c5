-- Say how far the shop is: lines read, orders placed, paid and done (closed, rejected or failed), messages in each queue
-- and those for later. All is of one snapshot, and a message that is being handled still counts: when all lines are read
-- and no message is left, all is done.
-- Locks nothing; returns one row.
select
    (select count(*) from rowbus_demo.lines) as read,
    orders.placed,
    orders.paid,
    (
        orders.closed
        + (select count(*) from rowbus_demo.lines where lines.problem is not null)
        + (select count(*) from rowbus_demo.error)
    ) as done,
    (select count(*) from rowbus_demo."Sales") as sales,
    (select count(*) from rowbus_demo."Billing") as billing,
    (select count(*) from rowbus_demo."Shipping") as shipping,
    (
        (select count(*) from rowbus_demo."Sales.Delayed")
        + (select count(*) from rowbus_demo."Billing.Delayed")
        + (select count(*) from rowbus_demo."Shipping.Delayed")
    ) as delayed
from (
    select
        count(*) filter (where state = 'placed') as placed,
        count(*) filter (where state = 'paid') as paid,
        count(*) filter (where state in ('shipped', 'declined', 'rejected')) as closed
    from rowbus_demo.orders
) as orders
