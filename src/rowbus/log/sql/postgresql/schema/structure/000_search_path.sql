-- Look names up in pg_catalog alone while the files run: this role's path may begin with schemas of other roles;
-- grants/zzz_search_path.sql puts the path back.
-- Locks nothing; returns one row that means nothing.
select
    pg_catalog.set_config('rowbus.search_path', pg_catalog.current_setting('search_path'), false) as kept,
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false) as search_path;
