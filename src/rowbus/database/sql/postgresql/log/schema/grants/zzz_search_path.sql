-- Put the search path back that structure/000_search_path.sql has noted.
-- Locks nothing; returns one row that means nothing.
select pg_catalog.set_config('search_path', pg_catalog.current_setting('rowbus.search_path'), false) as search_path;
