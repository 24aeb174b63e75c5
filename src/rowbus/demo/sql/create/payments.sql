-- The payments, written by Billing. No unique constraint on purpose: that no order is charged twice is for messaging
-- to achieve and for the reconciliation to prove. The key is there because changes are captured by it. Returns nothing.
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
) with (fillfactor = 70)
