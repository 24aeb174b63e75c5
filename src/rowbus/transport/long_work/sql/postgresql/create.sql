-- Create the table of an endpoint's running work: messages whose handlers take long, each held by a lease of a process.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07 or 23505.
create table if not exists :"schema".:"running" (
    id uuid not null primary key,
    seq bigint not null generated always as identity unique,
    queue text not null,
    headers text not null,
    body bytea not null,
    failures int not null default 0,
    epoch int not null default 0,
    lease timestamptz,
    process text,
    since timestamptz,
    progress float8,
    note text,
    cancelled_by text,
    cancelled_why text
)
