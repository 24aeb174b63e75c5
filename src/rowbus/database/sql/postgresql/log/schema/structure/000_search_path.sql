-- Resolve names, for the rest of this transaction, among PostgreSQL's own: what is defined or run from here on names
-- all else with its schema, so nothing that other roles put in the way is taken for it. Run the files in one transaction.
-- Locks nothing; returns nothing.
set local search_path = pg_catalog, pg_temp;
