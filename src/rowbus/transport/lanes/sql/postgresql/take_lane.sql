-- Take a lane for this session, as one of a process: nobody else has it until the session ends.
-- Takes two session advisory locks, one of them shared, and waits for none. Returns whether the lane is this session's.
select
    pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtext(:'members'::text), :'process'::integer)
    and pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended(:'lane'::text, 0)) as taken
