-- Prove that every order of the file was read, ended once, was paid once and was shipped once. A check counts what it
-- looked at and what is wrong with it, and gives an example of what is wrong.
-- Locks nothing; returns a row for each check: place, name, title, checked, wrong, example.

-- Every line of the file was read. Checked: lines that the file has. Wrong: by how many we differ from that.
select
    1 as place,
    'all_read' as name,
    'Every line of the file was read' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        :'lines'::bigint as checked,
        abs(:'lines'::bigint - count(*)) as wrong,
        case when count(*) <> :'lines'::bigint then format('%s were read', count(*)) end as example
    from rowbus_demo.lines
) as found
union all
-- Every line of the file has ended in exactly one way. Checked: lines. Wrong: those with none, or more than one.
select
    2 as place,
    'one_final_state' as name,
    'Every line is in exactly one final state' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where ends.number <> 1) as wrong,
        min(format('line %s has %s', ends.line, ends.number)) filter (where ends.number <> 1) as example
    from (
        select
            lines.line,
            count(outcomes.line) as number
        from rowbus_demo.lines
        left join rowbus_demo.outcomes on lines.line = outcomes.line
        group by lines.line
    ) as ends
) as found
union all
-- Nothing is there that the file did not ask for. Checked: rows of all business tables. Wrong: those of no line.
select
    3 as place,
    'from_the_file' as name,
    'Every business row belongs to one line' as title,
    found.checked,
    found.wrong,
    found.example
from (
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
            'estimate' as kind,
            estimates.order_id
        from rowbus_demo.estimates
    ) as found
    left join rowbus_demo.lines on found.order_id = lines.order_id and lines.problem is null
) as found
union all
-- Each order has the payments that its state asks for: one, charged, if it was paid; one, declined, if it was
-- declined; none otherwise. Checked: orders. Wrong: those with another number or kind.
select
    4 as place,
    'one_payment' as name,
    'Every order has the one payment its state asks for, or none' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where paid.charged <> paid.to_charge or paid.others <> paid.to_decline) as wrong,
        min(format('%s is %s with %s charged', paid.order_id, paid.state, paid.charged))
            filter (where paid.charged <> paid.to_charge or paid.others <> paid.to_decline) as example
    from (
        select
            orders.order_id,
            orders.state,
            (orders.state in ('paid', 'shipped'))::integer as to_charge,
            (orders.state = 'declined')::integer as to_decline,
            count(*) filter (where payments.state = 'charged') as charged,
            count(*) filter (where payments.state <> 'charged') as others
        from rowbus_demo.orders
        left join rowbus_demo.payments on orders.order_id = payments.order_id
        group by
            orders.order_id,
            orders.state
    ) as paid
) as found
union all
-- Each order that was shipped has one shipment, with the tracking number the customer was told; no other has any.
-- Checked: orders. Wrong: those with another number of shipments, or a shipment of another number.
select
    5 as place,
    'one_shipment' as name,
    'Every shipped order has one shipment, no other has any' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where parcels.number <> parcels.expected) as wrong,
        min(format('%s is %s with %s shipments', parcels.order_id, parcels.state, parcels.number))
            filter (where parcels.number <> parcels.expected) as example
    from (
        select
            orders.order_id,
            orders.state,
            (orders.state = 'shipped')::integer as expected,
            -- a parcel with the wrong number counts double, so that it is found
            coalesce(sum(case when shipments.tracking = orders.reason then 1 else 2 end)
                filter (where shipments.order_id is not null), 0) as number
        from rowbus_demo.orders
        left join rowbus_demo.shipments on orders.order_id = shipments.order_id
        group by
            orders.order_id,
            orders.state
    ) as parcels
) as found
union all
-- The money is right: an order's items, the order and its payment say the same amount. Checked: orders that were
-- placed. Wrong: those where two of them differ.
select
    6 as place,
    'amounts' as name,
    'Items, order and payment agree on the amount' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where sums.differ) as wrong,
        min(format('%s: items %s, order %s, paid %s', sums.order_id, sums.items, sums.amount, sums.paid))
            filter (where sums.differ) as example
    from (
        select
            orders.order_id,
            orders.amount,
            items.amount as items,
            paid.amount as paid,
            (
                coalesce(items.amount, 0) <> orders.amount
                or coalesce(paid.amount, orders.amount) <> orders.amount
                or coalesce(paid.currency, orders.currency) <> orders.currency
            ) as differ
        from rowbus_demo.orders
        left join (
            select
                order_items.order_id,
                sum(order_items.quantity * order_items.unit_price) as amount
            from rowbus_demo.order_items
            group by order_items.order_id
        ) as items on orders.order_id = items.order_id
        left join rowbus_demo.payments as paid on orders.order_id = paid.order_id
        where orders.state <> 'rejected'
    ) as sums
) as found
union all
-- The books agree in every currency: what Sales has sold is what Billing has collected. Checked: currencies.
select
    7 as place,
    'revenue' as name,
    'Sales and Billing agree on the revenue in each currency' as title,
    found.checked,
    found.wrong,
    found.example
from (
    select
        count(*) as checked,
        count(*) filter (where sold.amount is distinct from collected.amount) as wrong,
        min(format('%s: sold %s, collected %s', currency, sold.amount, collected.amount))
            filter (where sold.amount is distinct from collected.amount) as example
    from (
        select
            currency,
            sum(amount) as amount
        from rowbus_demo.orders
        where state in ('paid', 'shipped')
        group by currency
    ) as sold
    full join (
        select
            currency,
            sum(amount) as amount
        from rowbus_demo.payments
        where state = 'charged'
        group by currency
    ) as collected using (currency)
) as found
order by place
