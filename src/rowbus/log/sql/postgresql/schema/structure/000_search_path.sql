-- Have names looked up in pg_catalog alone while the files run, whatever schemas of others this role's path begins with;
-- grants/zzz_search_path.sql puts the path back.
-- Locks nothing; returns one row that means nothing.
select
    pg_catalog.set_config('rowbus.search_path', pg_catalog.current_setting('search_path'), false) as kept,
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false) as search_path;
