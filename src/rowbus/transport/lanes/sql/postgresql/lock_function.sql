-- Wait for the lock under which installers put the function of lanes in place: two of them at once would make
-- `create or replace` fail on the catalogue. Holds a transaction-scoped advisory lock; returns one empty row.
select pg_advisory_xact_lock(hashtextextended('rowbus_lane', 0))
