-- Try to be the one live query of a consumer of a queue, for as long as the session lasts.
-- Takes a session-scoped advisory lock, never waits; returns one row with one boolean.
select pg_try_advisory_lock(hashtextextended(:'lock_name'::text, 8217))
