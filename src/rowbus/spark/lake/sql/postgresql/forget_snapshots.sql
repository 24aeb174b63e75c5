-- Forget the snapshots of a DuckLake that are older than the oldest that is kept, and what only they have.
-- Run it while the table of snapshots is locked; returns nothing. Columns stay: no number comes again.
with snapshots as (
    delete from :"schema".ducklake_snapshot as s
    where s.snapshot_id < :'oldest'::bigint
),

changes as (
    delete from :"schema".ducklake_snapshot_changes as c
    where c.snapshot_id < :'oldest'::bigint
),

deletions as (
    delete from :"schema".ducklake_delete_file as d
    where d.end_snapshot <= :'oldest'::bigint
),

files as (
    delete from :"schema".ducklake_data_file as f
    where f.end_snapshot <= :'oldest'::bigint
    returning f.data_file_id
)

delete from :"schema".ducklake_file_column_stats as b
using files
where b.data_file_id = files.data_file_id
