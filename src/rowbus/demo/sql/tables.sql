-- The demo's schemas and tables, all new. Locks no row that exists; returns nothing.

-- Make the demo's schema.
create schema rowbus_demo;

-- Mark the schema as ours, so that the next run knows that it may drop it.
comment on schema rowbus_demo is 'made by `rowbus demo`, which drops and makes it anew at every run';

-- The file, line by line, as the web shop has read it. `problem` says why a line is no order; such a line was not
-- sent. `rush`: it came with hundreds of others at once; `token` is its card.
create table rowbus_demo.lines (
    line integer primary key,
    order_id text,
    problem text,
    token text,
    express boolean not null,
    rush boolean not null,
    read_at timestamptz not null default now()
);

-- The orders, written by Sales. `reason` is why it was rejected or declined, or the tracking number. Pages are left
-- with room, because each order is updated twice in place.
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
) with (fillfactor = 70);

-- What was ordered, written by Sales together with the order.
create table rowbus_demo.order_items (
    order_id text not null,
    product text not null,
    quantity bigint not null check (quantity > 0),
    unit_price numeric not null check (unit_price > 0)
);

-- The payments, written by Billing. No unique constraint on purpose: that no order is charged twice is for
-- messaging to achieve and for the reconciliation to prove. The key is there because changes are captured by it.
create table rowbus_demo.payments (
    payment_id bigint generated always as identity primary key,
    order_id text not null,
    amount numeric not null,
    currency text not null,
    method text not null,
    state text not null default 'pending' check (state in ('pending', 'charged', 'declined')),
    attempts integer,
    delayed_retries integer,
    settled_at timestamptz
) with (fillfactor = 70);

-- Find the payments of an order.
create index on rowbus_demo.payments (order_id);

-- The parcels, written by Shipping. No unique constraint on purpose, as with the payments.
create table rowbus_demo.shipments (
    order_id text not null,
    country text not null,
    tracking text not null,
    shipped_at timestamptz not null default clock_timestamp()
);

-- The invoices, written by Billing when it hears of a shipment. No unique constraint on purpose, as with the
-- payments.
create table rowbus_demo.invoices (
    order_id text not null,
    amount numeric not null,
    currency text not null,
    written_at timestamptz not null default clock_timestamp()
);

-- The delivery dates that customers were told, written by Sales.
create table rowbus_demo.estimates (
    order_id text not null,
    days integer not null,
    answered_at timestamptz not null default now()
);

-- What Sales found when an order's payment was due: `sent` if it was not in, so that the customer was reminded. An order
-- that had ended by then has no row. No unique constraint on purpose, as with the payments.
create table rowbus_demo.reminders (
    order_id text not null,
    sent boolean not null,
    at timestamptz not null
);

-- Which bank is down, by the card's token: for so many delayed retries, or (null) until it is mended.
create table rowbus_demo.outages (
    token text primary key,
    retries integer,
    mended_at timestamptz
);

-- One bank is down until a charge is retried later, the other until it is mended.
insert into rowbus_demo.outages (token, retries)
values
('tok_sleepy_bank', 1),
('tok_broken_bank', null);

-- The messages that were put back from the error queue to where they failed.
create table rowbus_demo.put_back (
    order_id text,
    at timestamptz not null default clock_timestamp()
);

-- What Bookkeeping keeps of the events: what was collected in each currency.
create table rowbus_demo.revenue (
    currency text primary key,
    payments bigint not null,
    amount numeric not null
);

-- What Bookkeeping keeps of the events: how many orders are in which state.
create table rowbus_demo.order_states (
    state text primary key,
    orders bigint not null
);

-- How far Bookkeeping is: a row for each batch that it has booked.
create table rowbus_demo.books (
    batch bigint primary key,
    events bigint not null,
    behind interval not null
);

-- Make the schema of the replica.
create schema rowbus_demo_replica;

-- Mark the replica's schema as ours, so that the next run knows that it may drop it.
comment on schema rowbus_demo_replica is 'made by `rowbus demo`, which drops and makes it anew at every run';

-- Where Analytics brings its archive back for the proof. No unique constraint on purpose: that no event is there
-- twice is for Spark to achieve and for the reconciliation to prove.
create table rowbus_demo.archived (
    ev_id bigint,
    ev_time timestamptz,
    ev_txid bigint,
    ev_retry integer,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
);
