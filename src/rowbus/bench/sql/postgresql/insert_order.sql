-- Write what a handler of a message writes: one small row.
-- Locks no other row; returns nothing.
insert into :"schema".orders (order_id, total)
values (:'order_id'::text, :'total'::double precision)
