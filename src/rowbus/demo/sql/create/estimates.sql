-- The delivery dates that customers were told, written by Sales. Returns nothing.
create table rowbus_demo.estimates (
    order_id text not null,
    days integer not null,
    answered_at timestamptz not null default now()
)
