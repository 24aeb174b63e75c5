-- Wait until no other session installs, upgrades, adopts or removes the schema pgq of this database.
-- Locks only itself, until the end of the transaction; returns nothing of interest.
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('rowbus: schema pgq', 0))
