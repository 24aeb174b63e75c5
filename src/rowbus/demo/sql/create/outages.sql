-- Which bank is down, by the card's token: for so many delayed retries, or (null) until somebody mends it.
-- Returns nothing.
create table rowbus_demo.outages (
    token text primary key,
    retries integer,
    mended_at timestamptz
)
