-- The parcels, written by Shipping. No unique constraint on purpose, as with the payments. Returns nothing.
create table rowbus_demo.shipments (
    order_id text not null,
    country text not null,
    tracking text not null,
    shipped_at timestamptz not null default clock_timestamp()
)
