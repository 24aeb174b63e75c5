-- Returns the arguments of a trigger as the trigger sees them: from 0; null for those that check_trigger refuses for their
-- length, for all who alter a table pay for reading them. Locks nothing.
create or replace function pgq.trigger_arguments(i_args bytea)
returns text[]
language sql stable
return (
    select pg_catalog.format('[0:%s]=%s', pg_catalog.count(*) - 1, pg_catalog.array_agg(
        pg_catalog.convert_from(pg_catalog.decode(m.found[1], 'hex'), pg_catalog.getdatabaseencoding()) order by m.place
    ))::text[]
    from pg_catalog.regexp_matches(pg_catalog.encode(i_args, 'hex'), '((?:(?!00)..)*)00', 'g')
        with ordinality as m (found, place)
    where pg_catalog.octet_length(i_args) <= 8192
    having pg_catalog.count(*) > 0
);

-- The row triggers of this database that put changes into a queue, and whether there is generated code for them: yes,
-- stale (the table has changed since; maint_capture makes it anew) or no (nothing to gain, or not made yet). told numbers the
-- shapes that the log was told, and is null without one. trigger_id is another number once a trigger was disabled, and once
-- it was enabled again, for its rows may have changed untold: ALTER TABLE alone leaves its dependencies as they are.
create or replace view pgq.capture_status as
select
    n.nspname || '.' || c.relname as table_name,
    t.tgname::text as trigger_name,
    a.args[0] as queue_name,
    f.format,
    a.args[1:] as arguments,
    case
        when k.cc_table is null then 'no'
        when k.cc_shape = pgq.table_shape(t.tgrelid) then 'yes'
        else 'stale'
    end as generated,
    t.tgrelid as table_id,
    a.args as trigger_args,
    t.tgparentid <> 0 as is_inherited,
    (
        select pg_catalog.max(s.cs_id)
        from pgq.capture_shape as s
        where s.cs_table = t.tgrelid and s.cs_queue = a.args[0] and s.cs_trigger = t.tgname
    ) as told,
    case
        when exists (
            select
            from pg_catalog.pg_depend as d
            where d.classid = 'pg_catalog.pg_trigger'::regclass and d.objid = t.oid and d.xmin = t.xmin
        ) then t.oid
        else t.xmin::text::oid
    end as trigger_id
from pg_catalog.pg_trigger as t
inner join pg_catalog.pg_class as c on t.tgrelid = c.oid
inner join pg_catalog.pg_namespace as n on c.relnamespace = n.oid
inner join (
    values ('pgq.jsontriga()', 'json'), ('pgq.logutriga()', 'url'), ('pgq.sqltriga()', 'sql')
) as f (name, format) on t.tgfoid = pg_catalog.to_regprocedure(f.name)
cross join lateral pgq.trigger_arguments(t.tgargs) as a (args)
left join pgq.capture_code as k
    on t.tgrelid = k.cc_table and f.format = k.cc_format and a.args = k.cc_args
where not t.tgisinternal and (t.tgtype & 1) = 1 and a.args is not null;
