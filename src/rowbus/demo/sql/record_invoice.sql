-- Write the invoice of an order, from its payment.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.invoices (order_id, amount, currency)
select
    payments.order_id,
    payments.amount,
    payments.currency
from rowbus_demo.payments
where
    payments.order_id = :'order_id'
    and payments.state = 'charged'
