-- Create the table of how a database stood: a row a minute and a row an hour of each series, until it is forgotten.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"past" (
    kind text not null,
    name text not null,
    minutes smallint not null,
    at timestamptz not null,
    depth bigint,
    entered bigint,
    taken bigint,
    failed bigint,
    lag double precision,
    durations bigint[],
    primary key (name, kind, minutes, at)
)
