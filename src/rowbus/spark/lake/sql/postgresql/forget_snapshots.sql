-- Forget the snapshots of a DuckLake that were not the newest any more so long ago, and what only they have.
-- Run it while the table of snapshots is locked; returns nothing. Columns stay: no number comes again.
with kept as (
    select
        least(
            coalesce(
                max(s.snapshot_id) filter (where s.snapshot_time <= now() - :'older_than'::interval),
                min(s.snapshot_id)
            ),
            :'noted'::bigint
        ) as first_id
    from :"schema".ducklake_snapshot as s
),

snapshots as (
    delete from :"schema".ducklake_snapshot as s
    using kept
    where s.snapshot_id < kept.first_id
),

changes as (
    delete from :"schema".ducklake_snapshot_changes as c
    using kept
    where c.snapshot_id < kept.first_id
),

deletions as (
    delete from :"schema".ducklake_delete_file as d
    using kept
    where d.end_snapshot <= kept.first_id
),

files as (
    delete from :"schema".ducklake_data_file as f
    using kept
    where f.end_snapshot <= kept.first_id
    returning f.data_file_id
)

delete from :"schema".ducklake_file_column_stats as b
using files
where b.data_file_id = files.data_file_id
