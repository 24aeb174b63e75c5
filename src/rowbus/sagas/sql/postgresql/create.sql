-- Create the table of a saga: one row for each one that goes on. `concurrency` counts the writes of a row, 0 is one that
-- begins in its transaction. Rows change often and keep their keys: a fifth of each page is left free for that.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"saga" (
    id uuid not null default gen_random_uuid() primary key,
    correlation text not null,
    state jsonb not null,
    version integer not null,
    concurrency integer not null,
    originator text,
    original_message_id text,
    timeouts jsonb not null default '[]',
    began timestamp with time zone not null default now(),
    changed timestamp with time zone not null default now(),
    constraint :"correlation_key" unique (correlation)
) with (fillfactor = 80)
