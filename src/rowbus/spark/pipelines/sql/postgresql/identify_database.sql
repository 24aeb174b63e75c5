-- Say which database this is, however it was reached.
-- Locks nothing. Returns its name and when its server was started.
select
    current_database()::text as name,
    pg_postmaster_start_time()::text as started
