-- End the session of a process that has stopped to answer, so that its transaction is rolled back and its lanes are free.
-- Needs a role that the session's is a member of. Locks nothing; returns whether it was told to end.
select coalesce(bool_or(pg_terminate_backend(activity.pid)), false) as ended
from pg_catalog.pg_stat_activity as activity
where activity.pid = :'pid'::integer
