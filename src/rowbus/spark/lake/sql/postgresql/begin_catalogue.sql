-- Begin a DuckLake: what it is, its first snapshot, and the schema that each one has.
-- Run it once, after the tables were made; locks its rows; returns nothing.
with described as (
    insert into :"schema".ducklake_metadata (key, value)
    values
    ('version', '1.0'), ('created_by', 'Rowbus'), ('encrypted', 'false'), ('data_path', :'data_path'::text)
),

main as (
    insert into :"schema".ducklake_schema (
        schema_id, schema_uuid, begin_snapshot, schema_name, path, path_is_relative
    )
    values (0, gen_random_uuid(), 0, 'main', '', true)
),

changes as (
    insert into :"schema".ducklake_snapshot_changes (snapshot_id, changes_made)
    values (0, concat('created_schema:', '"main"'))
)

insert into :"schema".ducklake_snapshot (
    snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id
)
values (0, now(), 0, 1, 0)
