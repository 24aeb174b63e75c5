-- Resolve names, for the rest of this transaction, among PostgreSQL's own, never among objects of other roles.
-- Locks nothing; returns nothing.
set local search_path = pg_catalog, pg_temp;
