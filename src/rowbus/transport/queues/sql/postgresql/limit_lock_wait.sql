-- Have the statements of this transaction give up when they have waited so many milliseconds for a lock: whatever uses the
-- table waits behind one that waits to change it. Locks nothing; returns one row that means nothing.
select pg_catalog.set_config('lock_timeout', (:'milliseconds'::integer)::text, true)
