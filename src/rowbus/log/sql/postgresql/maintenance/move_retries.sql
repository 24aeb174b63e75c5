-- Move events whose time has come from the retry queue into their logs, up to `most`, the longest due first.
-- Lets no other mover in meanwhile, and blocks nobody else. Returns how many were moved.
select pgq.maint_retry_events(:'most'::integer) as moved
