-- Record an order that the shop does not take, and why.
-- Locks no row that exists; returns nothing. An order that is there already is an error.
insert into rowbus_demo.orders (order_id, customer, country, currency, state, reason, finished_at)
values (:'order_id', :'customer', :'country', :'currency', 'rejected', :'reason', clock_timestamp())
