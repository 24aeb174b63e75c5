-- Create one queue table, exactly as NServiceBus creates it (names, types and order of the columns).
-- The storage settings fit a table whose rows are inserted and deleted but never updated: full pages, vacuum by
-- count instead of by share, without pauses, and without the exclusive lock that truncating the file takes.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"queue" (
    id uuid not null primary key,
    expires timestamp without time zone,
    headers text not null,
    body bytea,
    seq serial not null unique
) with (
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    vacuum_truncate = false
)
