-- Nothing is there that the file did not ask for. Checked: rows of all business tables. Wrong: those of no line.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where lines.line is null) as wrong,
    min(format('%s of %s', found.kind, found.order_id)) filter (where lines.line is null) as example
from (
    select
        'order' as kind,
        orders.order_id
    from rowbus_demo.orders
    union all
    select
        'payment' as kind,
        payments.order_id
    from rowbus_demo.payments
    union all
    select
        'shipment' as kind,
        shipments.order_id
    from rowbus_demo.shipments
    union all
    select
        'invoice' as kind,
        invoices.order_id
    from rowbus_demo.invoices
    union all
    select
        'reminder' as kind,
        reminders.order_id
    from rowbus_demo.reminders
    union all
    select
        'estimate' as kind,
        estimates.order_id
    from rowbus_demo.estimates
) as found
left join rowbus_demo.lines on found.order_id = lines.order_id and lines.problem is null
