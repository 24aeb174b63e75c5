-- Bound how long the session, or this transaction from here on, waits for a lock while it sends: somebody may hold a queue's
-- table, or an entry of its indexes, without end. What the role, the database or a handler has set stays.
-- Locks nothing; returns a row that means nothing, or none.
select pg_catalog.set_config('lock_timeout', '10s', :'in_transaction'::boolean) as bound
where pg_catalog.current_setting('lock_timeout') = '0'
