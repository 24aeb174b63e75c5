-- Close an order: shipped (the reason is the tracking number) or declined. One that is closed already stays as it is.
-- Locks the order; returns nothing, but affects a row.
update rowbus_demo.orders
set
    state = :'state',
    reason = :'reason',
    finished_at = clock_timestamp()
where
    order_id = :'order_id'
    and finished_at is null
