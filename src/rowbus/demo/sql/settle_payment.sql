-- Note what the bank said to a payment: charged or declined, after how many attempts, at which delayed retry.
-- Locks the payment; returns nothing.
update rowbus_demo.payments
set
    state = :'state',
    attempts = :'attempts',
    delayed_retries = :'retries',
    settled_at = clock_timestamp()
where
    order_id = :'order_id'
    and state = 'pending'
