-- End the session of a process that has stopped to answer, so that its transaction is rolled back and its lanes are free.
-- Needs a role that the session's is a member of. Locks nothing; returns whether it was told to end.
select pg_terminate_backend(:'pid'::integer) as ended
