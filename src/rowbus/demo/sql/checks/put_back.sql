-- A charge that ended in the error queue, because its bank was broken, was put back when it had been mended, and has
-- worked. Checked: orders with a card of such a bank. Wrong: those that were not put back once, or without one payment
-- that was charged after that and counted its retries anew.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where charges.returns <> 1 or charges.worked <> 1) as wrong,
    min(format('%s was put back %s times, charged %s', charges.order_id, charges.returns, charges.worked))
        filter (where charges.returns <> 1 or charges.worked <> 1) as example
from (
    select
        orders.order_id,
        (
            select count(*)
            from rowbus_demo.put_back
            where put_back.order_id = orders.order_id
        ) as returns,
        (
            select count(*)
            from rowbus_demo.payments
            inner join rowbus_demo.put_back on payments.order_id = put_back.order_id
            where
                payments.order_id = orders.order_id
                and payments.state = 'charged'
                and payments.delayed_retries = 0
                and payments.settled_at > put_back.at
                and put_back.at > outages.mended_at
        ) as worked
    from rowbus_demo.orders
    inner join rowbus_demo.lines on orders.order_id = lines.order_id
    inner join rowbus_demo.outages on lines.token = outages.token
    where
        orders.state <> 'rejected'
        and outages.retries is null
        and lines.problem is null
) as charges
