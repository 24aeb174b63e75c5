-- Show that this session is a worker's of the process that leads, so that the next leader can end it.
-- Takes a shared session advisory lock, which no session takes alone; never waits. Returns true.
select pg_try_advisory_lock_shared(hashtextextended(:'lock_name'::text, 0)) as shown
