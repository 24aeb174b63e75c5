-- Returns a text that changes whenever the name, the schema, a column, the primary key or a trigger of PgQ of a
-- table does, and in every session is the same: what generated code depends on. Locks nothing.
create or replace function pgq.table_shape(i_table regclass)
returns text
language sql stable
return (
    select pg_catalog.md5(pg_catalog.concat_ws(
        e'\n', 5, n.nspname, c.relname, pgq.table_key(i_table), pgq.index_key(i_table),
        pg_catalog.array_to_string(pgq.event_table(i_table, '{as-root}'), '.'),
        (
            select pg_catalog.string_agg(pg_catalog.concat_ws(' ', a.attname, a.atttypid, a.atttypmod, a.attgenerated), ', ' order by a.attnum)
            from pg_catalog.pg_attribute as a
            where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
        ),
        (
            select pg_catalog.string_agg(pg_catalog.concat_ws(' ', p.proname, pg_catalog.encode(t.tgargs, 'hex')), ', ' order by t.tgname)
            from pg_catalog.pg_trigger as t
            join pg_catalog.pg_proc as p on t.tgfoid = p.oid
            where t.tgrelid = i_table and p.proname in ('jsontriga', 'logutriga', 'sqltriga')
        )
    ))
    from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    where c.oid = i_table
);
