-- Create one table of delayed messages, exactly as NServiceBus creates it (names, types and order of the columns).
-- The storage settings are those of a queue: rows are inserted and deleted but never updated.
-- Locks nothing that exists; returns nothing. Two creators at once: one of them may fail with 42P07, 42710 or 23505.
create table if not exists :"schema".:"delayed" (
    id uuid not null default gen_random_uuid() primary key,
    headers text not null,
    body bytea,
    due timestamptz not null
) with (
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    vacuum_truncate = false
)
