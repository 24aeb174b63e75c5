-- Note the newest batch of an application in a table of a DuckLake.
-- Locks its row; returns nothing.
insert into :"schema".rowbus_batch as b (table_id, app, number)
values (:'table_id'::bigint, :'app'::text, :'number'::bigint)
on conflict (table_id, app) do update
set number = excluded.number
