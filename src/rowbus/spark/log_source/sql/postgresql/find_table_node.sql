-- Say which file holds a table: another one after TRUNCATE.
-- Locks nothing. Returns its number.
select pg_relation_filenode(:'name'::regclass)::bigint as node
