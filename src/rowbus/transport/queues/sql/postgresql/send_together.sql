-- Put a copy of a message in the queue: one part of a statement that has such a part for each of several queues.
-- Locks no row; returns nothing. The row's id is random, as in send.sql, and never the message's id.
insert into :"schema".:"queue" (id, expires, headers, body)
values (
    gen_random_uuid(),
    (now() at time zone 'UTC') + :'time_to_be_received'::interval,
    :'headers'::text,
    :'body'::bytea
)
