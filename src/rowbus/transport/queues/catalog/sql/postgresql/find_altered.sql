-- Find the tables with a trigger that runs a `rowbus_notify` that is not as this Rowbus makes it: another text, another
-- language, settings, or its owner's rights. Reads catalogues only. Locks nothing.
-- Returns the table, as it was given, and the function.
select distinct
    given.name as table_name,
    p.oid::pg_catalog.regprocedure::text as altered
from unnest(:'tables'::text[]) as given (name)
inner join pg_catalog.pg_trigger as t on t.tgrelid = pg_catalog.to_regclass(given.name)::oid
inner join pg_catalog.pg_proc as p on t.tgfoid = p.oid
inner join pg_catalog.pg_language as l on p.prolang = l.oid
where
    not t.tgisinternal
    and p.proname::text = 'rowbus_notify'
    and (p.prosrc <> :'body'::text or l.lanname::text <> 'plpgsql' or p.prosecdef or p.proconfig is not null)
order by given.name, altered
