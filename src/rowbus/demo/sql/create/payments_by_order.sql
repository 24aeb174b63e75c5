-- Find the payments of an order. Returns nothing.
create index on rowbus_demo.payments (order_id)
