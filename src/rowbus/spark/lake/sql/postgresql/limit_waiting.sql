-- Have this transaction wait a minute at most for a lock.
-- Locks nothing; returns nothing.
set local lock_timeout = '60s'
