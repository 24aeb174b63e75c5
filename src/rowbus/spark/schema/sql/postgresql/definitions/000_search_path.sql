-- Resolve names, for the rest of this transaction, among PostgreSQL's own, whatever other roles put in the way.
-- Locks nothing; returns nothing.
set local search_path = pg_catalog, pg_temp;
