-- Take a lane for this session, as one of a process: nobody else has it until the session ends.
-- Takes two session advisory locks, one of them shared, and waits for none. Returns whether the lane is this session's.
select
    pg_try_advisory_lock_shared(hashtext(:'members'::text), :'process'::integer)
    and pg_try_advisory_lock(hashtextextended(:'lane'::text, 0)) as taken
