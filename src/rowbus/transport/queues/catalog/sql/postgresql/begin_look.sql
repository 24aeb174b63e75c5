-- Have the rest of this transaction wait for no lock for long, apply no row security policy (a table that has one is an
-- error), and look names up in pg_catalog alone.
-- Locks nothing; returns one row that means nothing.
select
    pg_catalog.set_config('lock_timeout', '250ms', true) as lock_timeout,
    pg_catalog.set_config('row_security', 'off', true) as row_security,
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true) as search_path
