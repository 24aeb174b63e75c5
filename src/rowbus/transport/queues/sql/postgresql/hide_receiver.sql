-- Show no longer that this process receives from a queue: the opposite of `show_receiver.sql`.
-- Gives a shared session advisory lock back, once; never waits. Returns whether the session had it.
select pg_advisory_unlock_shared(hashtextextended(:'lock_name'::text, 0)) as hidden
