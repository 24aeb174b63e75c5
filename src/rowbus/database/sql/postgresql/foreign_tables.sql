-- Find which of these schemas and tables (whatever has a table's name), and of the functions that the tables' triggers run,
-- belong to a role that this one cannot trust: neither to a superuser nor to itself, nor to the owner of the database or of
-- the schema, nor (unless it is a superuser) to a role that it is a member of. Reads catalogues only. Locks nothing.
-- Returns what it is, who owns it, whether that is the owner of this database (never), and the table's schema and name; with
-- `fails`, for scripts and migrations, which have nobody to read that, the statement fails instead, by a cast.
with untrusted as (
    select
        r.oid,
        pg_catalog.quote_ident(r.rolname::text) as name
    from pg_catalog.pg_roles as r
    inner join pg_catalog.pg_database as d on d.datname = pg_catalog.current_database()
    inner join pg_catalog.pg_roles as me on me.rolname = current_user
    where
        not r.rolsuper
        and r.oid <> me.oid
        and r.oid <> d.datdba
        and r.rolname::text <> 'pg_database_owner'
        and (me.rolsuper or not pg_catalog.pg_has_role(me.oid, r.oid, 'usage'))
),

tables as (
    select
        c.oid,
        c.relowner as owner,
        c.relname as name,
        n.nspname as place,
        n.nspowner as host
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on c.relnamespace = n.oid
    where
        c.oid = any(
            array(
                select pg_catalog.to_regclass(given.name)::oid
                from unnest(:'tables'::text[]) as given (name)
            )
        )
),

objects as (
    select
        1 as rank,
        'pg_catalog.pg_namespace'::regclass::oid as catalogue,
        n.oid,
        n.nspowner as owner,
        '' as place,
        '' as name
    from pg_catalog.pg_namespace as n
    where n.nspname::text = any(:'schemas'::text[])
    union all
    select
        2 as rank,
        'pg_catalog.pg_class'::regclass::oid as catalogue,
        t.oid,
        t.owner,
        t.place::text as place,
        t.name::text as name
    from tables as t
    where t.owner <> t.host
    union all
    select
        3 as rank,
        'pg_catalog.pg_proc'::regclass::oid as catalogue,
        p.oid,
        p.proowner as owner,
        t.place::text as place,
        t.name::text as name
    from tables as t
    inner join pg_catalog.pg_trigger as g on t.oid = g.tgrelid
    inner join pg_catalog.pg_proc as p on g.tgfoid = p.oid
    where not g.tgisinternal and p.proowner <> t.owner and p.proowner <> t.host
),

found as (
    select distinct
        o.rank,
        i.type || ' ' || i.identity as what,
        u.name as owner,
        o.place,
        o.name
    from objects as o
    inner join untrusted as u on o.owner = u.oid
    cross join lateral pg_catalog.pg_identify_object(o.catalogue, o.oid, 0) as i
)

select
    f.what,
    f.owner,
    false as is_databases,
    f.place as schema,
    f.name,
    case
        when :'fails'::boolean
            then
                (
                    'Nothing was installed, for it would be built upon what another role can change: '
                    || f.what || ' belongs to ' || f.owner || '. Install as that role, or see what was made '
                    || 'there, and have a superuser drop it, or give it to the role that installs.'
                )::boolean
    end as refused
from found as f
order by f.rank, f.what
