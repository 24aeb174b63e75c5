-- Find the number of a table's file, which changes with TRUNCATE.
-- Locks nothing. Returns its number.
select pg_relation_filenode(:'name'::regclass)::bigint as node
