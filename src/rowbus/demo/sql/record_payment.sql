-- Record a payment that is about to be asked for.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.payments (order_id, amount, currency, method)
values (:'order_id', :'amount', :'currency', :'method')
