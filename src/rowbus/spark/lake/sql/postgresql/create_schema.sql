-- Make a schema in a DuckLake, whose tables have their paths from the lake's folder.
-- Run it once, in a snapshot that has begun; locks its rows; returns nothing.
insert into :"schema".ducklake_schema (
    schema_id, schema_uuid, begin_snapshot, schema_name, path, path_is_relative
)
values (:'schema_id'::bigint, gen_random_uuid(), :'snapshot'::bigint, :'namespace'::text, '', true)
