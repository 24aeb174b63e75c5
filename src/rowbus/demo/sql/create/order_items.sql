-- What was ordered, written by Sales together with the order. Returns nothing.
create table rowbus_demo.order_items (
    order_id text not null,
    product text not null,
    quantity bigint not null check (quantity > 0),
    unit_price numeric not null check (unit_price > 0)
)
