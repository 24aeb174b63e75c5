-- The invoices, written by Billing when it hears of a shipment. No unique constraint on purpose, as with the payments.
-- Returns nothing.
create table rowbus_demo.invoices (
    order_id text not null,
    amount numeric not null,
    currency text not null,
    written_at timestamptz not null default clock_timestamp()
)
