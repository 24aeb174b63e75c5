-- Have every unqualified name of this session mean what pg_catalog says, whatever others created in the schemas of the
-- role's search path: a function whose parameters fit better would be called in the place of PostgreSQL's own.
-- Locks nothing; returns one row that means nothing.
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false) as search_path
