-- Find the files that a DuckLake's snapshots need of a table: those that were the newest so long ago, and the later ones.
-- Locks nothing; returns rows: path, within the table's folder.
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

named as (
    select t.table_id
    from :"schema".ducklake_table as t
    inner join :"schema".ducklake_schema as s using (schema_id)
    where s.schema_name = :'namespace'::text and t.table_name = :'table'::text
),

files as (
    select
        f.table_id,
        f.path,
        f.end_snapshot
    from :"schema".ducklake_data_file as f
    union all
    select
        d.table_id,
        d.path,
        d.end_snapshot
    from :"schema".ducklake_delete_file as d
)

select files.path
from files
inner join named using (table_id)
cross join kept
where files.end_snapshot is null or files.end_snapshot > kept.first_id
