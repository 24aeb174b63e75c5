-- Have no other program make a snapshot of a DuckLake until the transaction ends; readers go on.
-- Locks the table of snapshots, waiting for those who make one; returns nothing.
lock table :"schema".ducklake_snapshot in share row exclusive mode
