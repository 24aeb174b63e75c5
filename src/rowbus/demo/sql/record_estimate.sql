-- Record the answer to a customer's question. `answered_at` is when the transaction began, so when the question was
-- received: the same moment that decided that it had not expired.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.estimates (order_id, days)
values (:'order_id', :'days')
