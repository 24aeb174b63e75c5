-- Name the prepared statements of this session that are Rowbus's own: which of them are there, when that is in doubt.
-- Locks nothing and never waits; returns one column, the name, a row for each.
select p.name
from pg_catalog.pg_prepared_statements as p
where pg_catalog.starts_with(p.name, 'rowbus_')
