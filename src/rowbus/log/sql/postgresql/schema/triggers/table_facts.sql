-- Says whether a trigger has the argument that captures of ours have and PgQ does not: its events tell of every change,
-- a changed key is a DELETE and an INSERT, and what is written does not depend on the session that writes. i_args: from
-- 0, where the queue is. Locks nothing.
create or replace function pgq.is_exact(i_args text[])
returns boolean
language sql immutable
return 'exact' = any(i_args[1:]);

-- Returns the columns of a table that the database computes, which a statement cannot set. Locks nothing.
create or replace function pgq.generated_columns(i_table regclass)
returns text[]
language sql stable
return (
    select pg_catalog.array_agg(a.attname::text order by a.attnum)
    from pg_catalog.pg_attribute as a
    where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped and a.attgenerated <> ''
);

-- Returns the names of a table's columns, in its order. Locks nothing.
create or replace function pgq.table_columns(i_table regclass)
returns text[]
language sql stable
return (
    select coalesce(pg_catalog.array_agg(a.attname::text order by a.attnum), '{}')
    from pg_catalog.pg_attribute as a
    where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
);
