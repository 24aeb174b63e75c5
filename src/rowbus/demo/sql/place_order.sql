-- Record an accepted order with its items. One statement, so one round trip.
-- Locks no row that exists; returns nothing. An order that is there already is an error.
with placed as (
    insert into rowbus_demo.orders (order_id, customer, country, currency, amount, state)
    values (:'order_id', :'customer', :'country', :'currency', :'amount', 'placed')
)

insert into rowbus_demo.order_items (order_id, product, quantity, unit_price)
select
    :'order_id' as order_id,
    item.product,
    item.quantity,
    item.unit_price
from
    unnest(:'products'::text[], :'quantities'::bigint[], :'unit_prices'::numeric[])
    as item (product, quantity, unit_price)
