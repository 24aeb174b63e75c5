-- Returns the table that a capture's events name: with as-root the partitioned table above all partitions. Locks nothing.
create or replace function pgq.named_table(i_table regclass, i_args text[])
returns regclass
language sql stable
return case when 'as-root' = any(i_args) then coalesce(pg_catalog.pg_partition_root(i_table), i_table) else i_table end;

-- Returns the schema and the name of that table. Locks nothing.
create or replace function pgq.event_table(i_table regclass, i_args text[])
returns text[]
language sql stable
return (
    select array[n.nspname, c.relname]::text[]
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on c.relnamespace = n.oid
    where c.oid = pgq.named_table(i_table, i_args)
);

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
