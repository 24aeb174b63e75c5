-- Each order has the payments that its state asks for: one, charged, if it was paid; one, declined, if it was declined;
-- none otherwise. Checked: orders. Wrong: those with another number or kind.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where paid.charged <> paid.to_charge or paid.others <> paid.to_decline) as wrong,
    min(format('%s is %s with %s charged', paid.order_id, paid.state, paid.charged))
        filter (where paid.charged <> paid.to_charge or paid.others <> paid.to_decline) as example
from (
    select
        orders.order_id,
        orders.state,
        (orders.state in ('paid', 'shipped'))::integer as to_charge,
        (orders.state = 'declined')::integer as to_decline,
        count(*) filter (where payments.state = 'charged') as charged,
        count(*) filter (where payments.state <> 'charged') as others
    from rowbus_demo.orders
    left join rowbus_demo.payments on orders.order_id = payments.order_id
    group by
        orders.order_id,
        orders.state
) as paid
