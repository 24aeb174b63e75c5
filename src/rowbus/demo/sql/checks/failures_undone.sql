-- A failed message has left nothing behind but itself: no order where placing failed, no payment where charging failed,
-- no shipment where shipping failed. Checked: messages in the error queue.
-- Locks nothing; returns one row: checked, wrong, an example.
select
    count(*) as checked,
    count(*) filter (where traces.found) as wrong,
    min(format('%s of %s', traces.message_type, traces.order_id)) filter (where traces.found) as example
from (
    select
        failures.order_id,
        failures.message_type,
        case failures.message_type
            when 'Shop.PlaceOrder'
                then exists (select from rowbus_demo.orders where orders.order_id = failures.order_id)
            when 'Shop.ChargeCard'
                then exists (select from rowbus_demo.payments where payments.order_id = failures.order_id)
            when 'Shop.ShipOrder'
                then exists (select from rowbus_demo.shipments where shipments.order_id = failures.order_id)
            else false
        end as found
    from rowbus_demo.failures
) as traces
