-- Create the table of an endpoint's rate limits: one row a key that lacks tokens or has messages that wait for some.
-- `arrival` is when the key will have all its tokens (the theoretical arrival time of the generic cell rate algorithm),
-- `next_waited` and `next_fresh` are the first turns that no deferred message has: of those that were deferred before,
-- and of others. Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07 or 23505.
create table if not exists :"schema".:"limits" (
    key text not null primary key,
    arrival timestamptz not null,
    next_waited timestamptz not null,
    next_fresh timestamptz not null
) with (fillfactor = 50)
