-- Put a message among an endpoint's running work, in the transaction that takes it from its queue.
-- Locks the row it writes; returns nothing.
insert into :"schema".:"running" (id, queue, headers, body)
values (:'id'::uuid, :'queue'::text, :'headers'::text, :'body'::bytea)
