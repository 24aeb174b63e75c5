-- Record lines of the file, in the transaction that also sends their orders.
-- Locks no row that exists; returns nothing.
insert into rowbus_demo.lines (line, order_id, problem, token, express, rush)
select
    read.line,
    read.order_id,
    read.problem,
    read.token,
    read.express,
    :'rush'::boolean as rush
from
    unnest(
        :'numbers'::integer[],
        :'order_ids'::text[],
        :'problems'::text[],
        :'tokens'::text[],
        :'express'::boolean[]
    ) as read (line, order_id, problem, token, express)
