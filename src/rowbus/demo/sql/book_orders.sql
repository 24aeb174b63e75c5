-- Count orders that have come into a state, or left it.
-- Locks the state's row; returns nothing.
insert into rowbus_demo.order_states as booked (state, orders)
values (:'state', :'orders')
on conflict (state) do update
    set orders = booked.orders + excluded.orders
