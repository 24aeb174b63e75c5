-- Create the table of the values that messages keep outside of their rows: a row for each part of a value.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"claimed" (
    id uuid not null,
    part integer not null,
    parts integer not null,
    keep_until timestamp with time zone not null,
    content bytea not null,
    primary key (id, part)
)
