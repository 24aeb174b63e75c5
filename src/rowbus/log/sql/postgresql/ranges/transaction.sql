-- Give the transaction a number, if it has none yet: the one that snapshots tell of.
-- Locks nothing. Returns it.
select pg_catalog.txid_current() as transaction
