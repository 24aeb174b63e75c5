-- Find the files that a DuckLake's snapshots need of a table, from the oldest that is kept on.
-- Locks nothing; returns rows: path, within the table's folder.
with named as (
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
where files.end_snapshot is null or files.end_snapshot > :'oldest'::bigint
