-- Each order that was shipped has one shipment, with the tracking number the customer was told; no other has any.
-- Checked: orders. Wrong: those with another number of shipments, or a shipment of another number.
-- Locks nothing; returns one row: checked, wrong, an example.
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
