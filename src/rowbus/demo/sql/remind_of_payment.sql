-- Note what was found when the payment of an order was due: its customer was reminded, or had paid.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.reminders (order_id, sent, at)
values (:'order_id', :'sent', clock_timestamp())
