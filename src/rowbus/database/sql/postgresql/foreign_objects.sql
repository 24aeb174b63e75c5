-- Find what is in these schemas, or is one of them, and belongs to a role that this one cannot trust: neither to a superuser
-- nor to itself, nor (unless it is a superuser) to a role that it is a member of. Of a schema that is itself such a thing,
-- what belongs to its owner is left out. Also who else may create objects there, and triggers with functions of others.
-- Reads catalogues only, for what is found may be meant to be run. Locks nothing. Returns at most 100 rows: what it is, who
-- owns it, and whether that is the owner of this database; strangers first. With `fails`, for scripts, it fails instead.
with untrusted as (
    select
        r.oid,
        pg_catalog.quote_ident(r.rolname::text) as name,
        r.oid = d.datdba as is_databases
    from pg_catalog.pg_roles as r
    inner join pg_catalog.pg_database as d on d.datname = pg_catalog.current_database()
    inner join pg_catalog.pg_roles as me on me.rolname = current_user
    where
        not r.rolsuper
        and r.oid <> me.oid
        and (me.rolsuper or not pg_catalog.pg_has_role(me.oid, r.oid, 'usage'))
),

places as (
    select
        n.oid,
        n.nspname,
        n.nspowner,
        n.nspacl
    from pg_catalog.pg_namespace as n
    where n.nspname = any(:'schemas'::text[])
),

objects as (
    select
        1 as rank,
        'pg_namespace'::regclass as catalogue,
        n.oid,
        n.oid as place,
        n.nspowner as owner
    from places as n
    union all
    select
        2 as rank,
        'pg_class'::regclass as catalogue,
        c.oid,
        c.relnamespace as place,
        c.relowner as owner
    from pg_catalog.pg_class as c
    where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
    union all
    select
        2 as rank,
        'pg_proc'::regclass as catalogue,
        p.oid,
        p.pronamespace as place,
        p.proowner as owner
    from pg_catalog.pg_proc as p
    union all
    select
        3 as rank,
        'pg_type'::regclass as catalogue,
        t.oid,
        t.typnamespace as place,
        t.typowner as owner
    from pg_catalog.pg_type as t
    where t.typrelid = 0 and t.typcategory <> 'A'
    union all
    select
        3 as rank,
        'pg_operator'::regclass as catalogue,
        o.oid,
        o.oprnamespace as place,
        o.oprowner as owner
    from pg_catalog.pg_operator as o
    union all
    select
        3 as rank,
        'pg_opclass'::regclass as catalogue,
        o.oid,
        o.opcnamespace as place,
        o.opcowner as owner
    from pg_catalog.pg_opclass as o
    union all
    select
        3 as rank,
        'pg_collation'::regclass as catalogue,
        l.oid,
        l.collnamespace as place,
        l.collowner as owner
    from pg_catalog.pg_collation as l
    union all
    select
        4 as rank,
        'pg_trigger'::regclass as catalogue,
        t.oid,
        c.relnamespace as place,
        p.proowner as owner
    from pg_catalog.pg_trigger as t
    inner join pg_catalog.pg_class as c on t.tgrelid = c.oid
    inner join pg_catalog.pg_proc as p on t.tgfoid = p.oid
    where not t.tgisinternal
),

found as (
    select
        o.rank,
        pg_catalog.format('%s %s', i.type, i.identity) as what,
        u.name,
        u.is_databases
    from objects as o
    inner join places as n on o.place = n.oid
    inner join untrusted as u on o.owner = u.oid
    cross join lateral pg_catalog.pg_identify_object(o.catalogue, o.oid, 0) as i
    where o.rank = 1 or o.owner <> n.nspowner
    union all
    select distinct
        5 as rank,
        pg_catalog.format('the right to create objects in schema %I', n.nspname) as what,
        coalesce(u.name, 'PUBLIC') as name,
        coalesce(u.is_databases, false) as is_databases
    from places as n
    cross join lateral pg_catalog.aclexplode(n.nspacl) as a
    left join untrusted as u on a.grantee = u.oid
    where a.privilege_type = 'CREATE' and a.grantee <> n.nspowner and (a.grantee = 0 or u.oid is not null)
)

select
    f.what,
    f.name as owner,
    f.is_databases,
    case
        when :'fails'::boolean
            then
                (
                    'Nothing was installed, for it would be built upon what another role can change: '
                    || f.what || ' belongs to ' || f.name || '. Install as that role, or see what was made '
                    || 'there, and have a superuser drop it, or give it to the role that installs.'
                )::boolean
    end as refused
from found as f
order by f.is_databases, f.rank, f.what
limit 100
