-- Create the log of what operators did: one row an operation, kept until it is deleted by hand.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"operations" (
    id text not null primary key,
    person text not null,
    action text not null,
    queue text not null,
    subject text not null,
    meant integer,
    done integer not null default 0,
    stayed integer not null default 0,
    state text not null default 'running',
    result text not null default '',
    began timestamptz not null default now(),
    noted timestamptz not null default now()
)
