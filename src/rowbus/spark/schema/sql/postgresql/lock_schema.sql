-- Lock the installation of schema rowbus_spark in this database; waits for other installers.
-- Locks only itself, until the end of the transaction; returns nothing of interest.
select pg_advisory_xact_lock(hashtextextended('rowbus: schema rowbus_spark', 0))
