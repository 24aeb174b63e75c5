-- Create the table of what is paused or scaled: one row each, until it is deleted.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"pauses" (
    kind text not null,
    name text not null,
    person text not null default current_user,
    why text not null default '',
    began timestamptz not null default now(),
    until timestamptz,
    amount integer check (amount between 1 and 1000),
    primary key (kind, name)
)
