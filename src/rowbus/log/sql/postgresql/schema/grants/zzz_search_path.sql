-- Restore the search path that structure/000_search_path.sql has noted.
-- Locks nothing; returns one row that means nothing.
select set_config('search_path', current_setting('rowbus.search_path'), false) as search_path;
