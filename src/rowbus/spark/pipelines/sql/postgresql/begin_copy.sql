-- Fix what a copy sees, at the start of its transaction: from here on it reads in this snapshot.
-- Locks nothing. Returns the snapshot, and sets the search_path to pg_catalog until the transaction ends.
select
    pg_current_snapshot()::text as snapshot,
    set_config('search_path', 'pg_catalog', true) as search_path
