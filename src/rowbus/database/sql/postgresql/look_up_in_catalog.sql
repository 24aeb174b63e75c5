-- Look up every unqualified name of this session in pg_catalog alone. Otherwise PostgreSQL prefers a function with better
-- fitting parameters that another role created in a schema of the search path.
-- Locks nothing; returns the new search path.
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false) as search_path
