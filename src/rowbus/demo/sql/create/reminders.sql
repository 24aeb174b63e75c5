-- What Sales found when an order's payment was due: `sent` if it was not in, so that the customer was reminded.
-- No unique constraint on purpose, as with the payments. Returns nothing.
create table rowbus_demo.reminders (
    order_id text not null,
    sent boolean not null,
    at timestamptz not null
)
