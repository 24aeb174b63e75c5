-- Close an order: shipped (the reason is the tracking number) or declined.
-- Locks the order; returns nothing.
update rowbus_demo.orders
set
    state = :'state',
    reason = :'reason',
    finished_at = clock_timestamp()
where order_id = :'order_id'
