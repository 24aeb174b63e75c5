-- Move events whose time has come from the retry queue into their logs, up to `most`, the longest due first.
-- Locks other movers out meanwhile; blocks no other session. Returns how many were moved.
select pgq.maint_retry_events(:'most'::integer) as moved
