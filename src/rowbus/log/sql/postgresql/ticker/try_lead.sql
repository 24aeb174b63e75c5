-- Become the one process that ticks the logs of this database, for as long as this session lasts.
-- Takes a session advisory lock, never waiting. Returns whether it was free.
select pg_try_advisory_lock(hashtextextended(:'lock_name'::text, 0)) as leads
