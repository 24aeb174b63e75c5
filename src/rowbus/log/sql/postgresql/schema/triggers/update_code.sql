-- Returns the condition under which generated code may answer for an UPDATE: no key column has changed and, where some
-- updates are passed over or written by their changes, a column that is data has. NULL when it never may. Locks nothing.
drop function if exists pgq.update_code(regclass, text, text[], text[]); -- an older installation's
create or replace function pgq.update_code(
    i_table regclass, i_format text, i_key text[], i_ignored text[], i_exact boolean
)
returns text
language sql stable
set search_path = pg_catalog, pgq, pg_temp as $$
    select pg_catalog.concat_ws(
        ' and ', c.same_key, case when i_format = 'sql' or i_ignored is not null then '(' || c.changed || ')' end
    )
    from (
        select
            'not (' || pg_catalog.string_agg(
                pgq.differs_code(a.attname, a.atttypid, i_exact), ' or ' order by a.attnum
            ) filter (where a.attname = any(i_key)) || ')' as same_key,
            coalesce(pg_catalog.string_agg(
                pgq.differs_code(a.attname, a.atttypid, i_exact), ' or ' order by a.attnum
            ) filter (where a.attname <> all(i_key || coalesce(i_ignored, '{}'))), 'false') as changed,
            pg_catalog.count(*) filter (where a.attname = any(i_key)) as keys,
            pg_catalog.count(pgq.differs_code(a.attname, a.atttypid, i_exact)) filter (where a.attname = any(i_key)) as comparable
        from pg_catalog.pg_attribute as a
        where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
    ) as c
    where c.keys > 0 and c.keys = c.comparable;
$$;
revoke execute on function pgq.update_code(regclass, text, text[], text[], boolean) from public;
