-- Note that an order is paid.
-- Locks the order; returns nothing.
update rowbus_demo.orders
set
    state = 'paid',
    paid_at = clock_timestamp()
where order_id = :'order_id'
