-- Put many equal messages into a queue.
-- Locks no row; returns nothing.
insert into :"schema".:"table" (id, headers, body)
select
    gen_random_uuid() as id,
    :'headers'::text as headers,
    :'body'::bytea as body
from generate_series(1, :'messages'::integer)
