-- The event about each shipment reached both subscribers once: Sales has closed the order (it refuses to do so twice), and
-- Billing has written one invoice, over what was paid. Checked: shipments. Wrong: those with another number of either.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where heard.closed <> 1 or heard.invoices <> 1) as wrong,
    min(format('%s: closed %s times, %s invoices', heard.order_id, heard.closed, heard.invoices))
        filter (where heard.closed <> 1 or heard.invoices <> 1) as example
from (
    select
        shipments.order_id,
        (
            select count(*)
            from rowbus_demo.orders
            where
                orders.order_id = shipments.order_id
                and orders.state = 'shipped'
        ) + (
            select count(*)
            from rowbus_demo.failures
            where
                failures.order_id = shipments.order_id
                and failures.message_type = 'Shop.OrderShipped'
        ) as closed,
        coalesce(written.invoices, 0) as invoices
    from rowbus_demo.shipments
    left join (
        select
            invoices.order_id,
            -- an invoice over another amount counts double, so that it is found
            sum(
                case
                    when (orders.amount, orders.currency) = (invoices.amount, invoices.currency) then 1
                    else 2
                end
            ) as invoices
        from rowbus_demo.invoices
        left join rowbus_demo.orders on invoices.order_id = orders.order_id
        group by invoices.order_id
    ) as written on shipments.order_id = written.order_id
) as heard
