-- The books that were kept from the log agree with the orders, in every state. Checked: orders.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    coalesce(sum(counted.orders), 0)::bigint as checked,
    count(*) filter (where booked.orders is distinct from counted.orders) as wrong,
    min(format('%s: booked %s, there are %s', state, booked.orders, counted.orders))
        filter (where booked.orders is distinct from counted.orders) as example
from (
    select
        state,
        orders
    from rowbus_demo.order_states
    where orders <> 0
) as booked
full join (
    select
        state,
        count(*) as orders
    from rowbus_demo.orders
    group by state
) as counted using (state)
