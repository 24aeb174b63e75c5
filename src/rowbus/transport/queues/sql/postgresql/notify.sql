-- Wake the queue's receivers once the transaction commits.
-- Locks no row (the server serialises commits that notify); returns one empty row.
select pg_notify(:'channel', '')
