-- Say whether there is a schema, and a DuckLake in it.
-- Locks nothing; returns one row with two booleans.
select
    to_regnamespace(format('%I', :'schema'::text)) is not null as has_schema,
    to_regclass(format('%I.ducklake_metadata', :'schema'::text)) is not null as has_lake
