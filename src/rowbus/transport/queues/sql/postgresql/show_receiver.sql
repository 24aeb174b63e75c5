-- Show that this process receives from a queue, for as long as the session lasts or until `hide_receiver.sql`.
-- Takes a shared session advisory lock, which no session takes alone; never waits. Returns true.
select pg_try_advisory_lock_shared(hashtextextended(:'lock_name'::text, 0)) as shown
