-- A charge whose bank was down for a while has worked at the delayed retry. Checked: orders with a card of such a bank.
-- Wrong: those without one payment that was charged at as many delayed retries as that took, not before their time.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where charges.worked <> 1) as wrong,
    min(format('%s was charged %s times at its delayed retry', charges.order_id, charges.worked))
        filter (where charges.worked <> 1) as example
from (
    select
        orders.order_id,
        count(payments.order_id) filter (
            where
            payments.state = 'charged'
            and payments.delayed_retries = outages.retries
            and payments.settled_at >= orders.placed_at + :'again_after'::interval
        ) as worked
    from rowbus_demo.orders
    inner join rowbus_demo.lines on orders.order_id = lines.order_id
    inner join rowbus_demo.outages on lines.token = outages.token
    left join rowbus_demo.payments on orders.order_id = payments.order_id
    where
        orders.state <> 'rejected'
        and outages.retries is not null
        and lines.problem is null
    group by orders.order_id
) as charges
