-- Have the other processes of an endpoint see that this one works on its lanes, for as long as the session lasts.
-- Takes a session advisory lock of its own; waits for none. Returns true.
select pg_try_advisory_lock(hashtext(:'beats'::text), :'process'::integer) as joined
