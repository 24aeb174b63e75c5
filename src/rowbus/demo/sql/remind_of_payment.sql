-- Remind a customer if the order still waits for its payment; note what was found. A payment at this moment
-- comes before or after that: the time is taken when the order is locked.
-- Locks the order; returns nothing.
with due as materialized (
    select
        order_id,
        state
    from rowbus_demo.orders
    where order_id = :'order_id'
    for no key update
)

insert into rowbus_demo.reminders (order_id, sent, at)
select
    due.order_id,
    due.state = 'placed' as sent,
    clock_timestamp() as at
from due
