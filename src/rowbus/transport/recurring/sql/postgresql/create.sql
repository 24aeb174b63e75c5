-- Create the table of the schedules of an endpoint's recurring messages: one row each, with the tick that it waits for.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07 or 23505.
create table if not exists :"schema".:"recurring" (
    name text not null primary key,
    schedule text not null,
    next_due timestamptz not null,
    last_sent timestamptz
)
