-- Find what is in these schemas, or is one of them, and belongs to a role that this one cannot trust: neither to a superuser
-- nor to itself, nor (unless it is a superuser) to a role that it is a member of. Of a schema that is itself such a thing,
-- what belongs to the same owner is left out. Also who else may create objects there, and triggers with functions of others.
-- Reads catalogues only, for what is found may be meant to be run. Locks nothing.
-- Returns at most 100 rows: what it is, who owns it, and whether that is the owner of this database; strangers first.
with untrusted as (
    select
        r.oid,
        quote_ident(r.rolname) as name,
        r.oid = d.datdba as is_databases
    from pg_catalog.pg_roles as r
    inner join pg_catalog.pg_database as d on d.datname = current_database()
    inner join pg_catalog.pg_roles as me on me.rolname = current_user
    where
        not r.rolsuper
        and r.oid <> me.oid
        and (me.rolsuper or not pg_has_role(me.oid, r.oid, 'usage'))
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
        2,
        'pg_class'::regclass,
        c.oid,
        c.relnamespace,
        c.relowner
    from pg_catalog.pg_class as c
    where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
    union all
    select
        2,
        'pg_proc'::regclass,
        p.oid,
        p.pronamespace,
        p.proowner
    from pg_catalog.pg_proc as p
    union all
    select
        3,
        'pg_type'::regclass,
        t.oid,
        t.typnamespace,
        t.typowner
    from pg_catalog.pg_type as t
    where t.typrelid = 0 and t.typcategory <> 'A'
    union all
    select
        3,
        'pg_operator'::regclass,
        o.oid,
        o.oprnamespace,
        o.oprowner
    from pg_catalog.pg_operator as o
    union all
    select
        3,
        'pg_opclass'::regclass,
        o.oid,
        o.opcnamespace,
        o.opcowner
    from pg_catalog.pg_opclass as o
    union all
    select
        3,
        'pg_collation'::regclass,
        l.oid,
        l.collnamespace,
        l.collowner
    from pg_catalog.pg_collation as l
    union all
    select
        4,
        'pg_trigger'::regclass,
        t.oid,
        c.relnamespace,
        p.proowner
    from pg_catalog.pg_trigger as t
    inner join pg_catalog.pg_class as c on t.tgrelid = c.oid
    inner join pg_catalog.pg_proc as p on t.tgfoid = p.oid
    where not t.tgisinternal
),

found as (
    select
        o.rank,
        format('%s %s', i.type, i.identity) as what,
        u.name,
        u.is_databases
    from objects as o
    inner join places as n on o.place = n.oid
    inner join untrusted as u on o.owner = u.oid
    cross join lateral pg_identify_object(o.catalogue, o.oid, 0) as i
    where o.rank = 1 or o.owner <> n.nspowner
    union all
    select distinct
        5 as rank,
        format('the right to create objects in schema %I', n.nspname) as what,
        coalesce(u.name, 'PUBLIC') as name,
        coalesce(u.is_databases, false) as is_databases
    from places as n
    cross join lateral aclexplode(n.nspacl) as a
    left join untrusted as u on a.grantee = u.oid
    where a.privilege_type = 'CREATE' and a.grantee <> n.nspowner and (a.grantee = 0 or u.oid is not null)
)

select
    f.what,
    f.name as owner,
    f.is_databases
from found as f
order by f.is_databases, f.rank, f.what
limit 100
