-- The money is right: an order's items, the order and its payment say the same amount. Checked: orders that were placed.
-- Wrong: those where two of them differ.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where sums.differ) as wrong,
    min(format('%s: items %s, order %s, paid %s', sums.order_id, sums.items, sums.amount, sums.paid))
        filter (where sums.differ) as example
from (
    select
        orders.order_id,
        orders.amount,
        items.amount as items,
        paid.amount as paid,
        (
            coalesce(items.amount, 0) <> orders.amount
            or coalesce(paid.amount, orders.amount) <> orders.amount
            or coalesce(paid.currency, orders.currency) <> orders.currency
        ) as differ
    from rowbus_demo.orders
    left join (
        select
            order_items.order_id,
            sum(order_items.quantity * order_items.unit_price) as amount
        from rowbus_demo.order_items
        group by order_items.order_id
    ) as items on orders.order_id = items.order_id
    left join rowbus_demo.payments as paid on orders.order_id = paid.order_id
    where orders.state <> 'rejected'
) as sums
