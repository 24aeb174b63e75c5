-- Put many equal messages, due for a minute, into a table of delayed messages; each is due 10 µs after the one before.
-- Locks no row; returns nothing.
insert into :"schema".:"table" (headers, body, due)
select
    :'headers'::text as headers,
    :'body'::bytea as body,
    clock_timestamp() - interval '1 minute' + number::float8 * interval '10 microseconds' as due
from generate_series(1, :'messages'::integer) as number
