-- Find the newest snapshot of a DuckLake.
-- Locks nothing; returns one row with its number.
select max(snapshot_id) from :"schema".ducklake_snapshot
