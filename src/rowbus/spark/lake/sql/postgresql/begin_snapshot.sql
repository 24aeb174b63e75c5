-- Begin the next snapshot of a DuckLake, while the table of snapshots is locked.
-- Returns one row: the snapshot, and the next numbers of a schema's version, of what is in the catalogue and of a file.
insert into :"schema".ducklake_snapshot (
    snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id
)
select
    s.snapshot_id + 1 as snapshot_id,
    clock_timestamp() as snapshot_time,
    s.schema_version,
    s.next_catalog_id,
    s.next_file_id
from :"schema".ducklake_snapshot as s
order by s.snapshot_id desc
limit 1
returning snapshot_id, schema_version, next_catalog_id, next_file_id
