-- Keep a lane that this session has until the transaction ends, though the session's own locks are released meanwhile.
-- Takes an advisory lock of the transaction, and waits for none. Returns whether the lane is this session's.
select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(:'lane'::text, 0)) as kept
