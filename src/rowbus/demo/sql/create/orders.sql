-- The orders, written by Sales. `reason` is why it was rejected or declined, or the tracking number.
-- Pages are left with room, because each order is updated twice in place. Returns nothing.
create table rowbus_demo.orders (
    order_id text primary key,
    customer text not null,
    country text not null,
    currency text not null,
    amount numeric,
    state text not null check (state in ('placed', 'paid', 'shipped', 'declined', 'rejected')),
    reason text,
    placed_at timestamptz not null default clock_timestamp(),
    paid_at timestamptz,
    finished_at timestamptz
) with (fillfactor = 70)
