-- Returns the columns of a table's primary key in the order of its index, separated by commas; NULL without one. Locks nothing.
create or replace function pgq.table_key(i_table regclass)
returns text
language sql stable
return (
    select pg_catalog.string_agg(a.attname, ',' order by a.attnum)
    from pg_catalog.pg_index as i
    join pg_catalog.pg_attribute as a on a.attrelid = i.indexrelid
    where i.indrelid = i_table and i.indisprimary and a.attnum > 0
);
