-- Returns the columns of a table's primary key in its order, by the names they have now, separated by commas; NULL
-- without one. The constraint knows the columns by number: those of its index keep the names they were made with, and
-- those that the index only includes are no key. Locks nothing.
create or replace function pgq.table_key(i_table regclass)
returns text
language sql stable
return (
    select pg_catalog.string_agg(a.attname, ',' order by k.place)
    from pg_catalog.pg_constraint as c
    cross join lateral unnest(c.conkey) with ordinality as k (attnum, place)
    join pg_catalog.pg_attribute as a on a.attrelid = c.conrelid and a.attnum = k.attnum
    where c.conrelid = i_table and c.contype = 'p'
);

-- Returns what PgQ takes for the key: with the columns that its index only includes. Locks nothing.
create or replace function pgq.index_key(i_table regclass)
returns text
language sql stable
return (
    select pg_catalog.string_agg(a.attname, ',' order by k.place)
    from pg_catalog.pg_index as i
    cross join lateral unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
    join pg_catalog.pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where i.indrelid = i_table and i.indisprimary
);
