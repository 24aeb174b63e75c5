-- Lock this consumer's position against other processes of Rowbus until the transaction ends.
-- Takes an advisory lock, waiting for it. Returns nothing of interest.
select pg_advisory_xact_lock(hashtextextended(:'lock_name'::text, 0))
