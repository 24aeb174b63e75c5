-- Say how far the shop is: lines read, how far they are or how they ended, what waits in each queue, and what for its
-- time. All of one snapshot, and a message that is being handled still counts as waiting: all read and nothing waiting means that all is done.
-- Locks nothing; returns one row.
select
    (select count(*) from rowbus_demo.lines) as read,
    orders.placed,
    orders.paid,
    orders.shipped,
    orders.declined,
    orders.rejected + (select count(*) from rowbus_demo.lines where lines.problem is not null) as rejected,
    (select count(*) from rowbus_demo.error) as failed,
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
        count(*) filter (where state = 'shipped') as shipped,
        count(*) filter (where state = 'declined') as declined,
        count(*) filter (where state = 'rejected') as rejected
    from rowbus_demo.orders
) as orders
