-- The messages that were put back from the error queue to where they failed. Returns nothing.
create table rowbus_demo.put_back (
    order_id text,
    at timestamptz not null default clock_timestamp()
)
