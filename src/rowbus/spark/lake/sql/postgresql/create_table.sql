-- Make a table in a DuckLake, without columns yet.
-- Run it once, in a snapshot that has begun; locks its rows; returns nothing.
insert into :"schema".ducklake_table (
    table_id, table_uuid, begin_snapshot, schema_id, table_name, path, path_is_relative
)
values (
    :'table_id'::bigint,
    gen_random_uuid(),
    :'snapshot'::bigint,
    :'schema_id'::bigint,
    :'table'::text,
    :'path'::text,
    true
)
