-- Every message that was handled, by what its handler wrote. Returns nothing.
create view rowbus_demo.handled as
select
    'Sales' as endpoint,
    happened.at
from
    rowbus_demo.orders,
    lateral (
        values
        (orders.placed_at),
        (orders.paid_at),
        (case when orders.state in ('shipped', 'declined') then orders.finished_at end)
    ) as happened (at)
where happened.at is not null
union all
select
    'Sales' as endpoint,
    estimates.answered_at as at
from rowbus_demo.estimates
union all
select
    'Sales' as endpoint,
    reminders.at
from rowbus_demo.reminders
union all
select
    'Billing' as endpoint,
    payments.settled_at as at
from rowbus_demo.payments
union all
select
    'Billing' as endpoint,
    invoices.written_at as at
from rowbus_demo.invoices
union all
select
    'Shipping' as endpoint,
    shipments.shipped_at as at
from rowbus_demo.shipments
