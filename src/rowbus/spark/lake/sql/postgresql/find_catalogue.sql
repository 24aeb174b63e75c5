-- Say whether a schema has a DuckLake.
-- Locks nothing; returns one row with one boolean.
select to_regclass(format('%I.ducklake_metadata', :'schema'::text)) is not null
