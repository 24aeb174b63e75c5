-- Create the table of discarded messages: rows of error queues as they were, for a week.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"discarded" (
    operation text not null,
    id uuid not null,
    queue text not null,
    headers text not null,
    body bytea,
    discarded timestamptz not null default now(),
    primary key (operation, id)
)
