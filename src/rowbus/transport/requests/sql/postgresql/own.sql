-- Own one queue of answers for as long as this session lasts; it need not exist yet.
-- Takes a session advisory lock, never waiting. Returns whether it was free.
select pg_try_advisory_lock(hashtextextended(:'lock_name'::text, 0)) as owns
