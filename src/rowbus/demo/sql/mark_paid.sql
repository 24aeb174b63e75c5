-- Note that an order is paid.
-- Locks the order; returns whom it goes to: customer, country.
update rowbus_demo.orders as paid
set
    state = 'paid',
    paid_at = clock_timestamp()
where
    paid.order_id = :'order_id'
    and paid.state = 'placed'
returning
    paid.customer,
    paid.country
