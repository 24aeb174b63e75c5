-- Say what is unusual about the roles pgq_reader, pgq_writer and pgq_admin, as far as they exist: their members, the
-- roles that may add members, the roles that they are members of, and further privileges.
-- Locks nothing; returns one row each, a text for people. What PgQ itself makes, and this role's own part, is left out.
with ours as (
    select
        r.oid,
        r.rolname,
        r.rolsuper,
        r.rolcreaterole,
        r.rolcanlogin
    from pg_catalog.pg_roles as r
    where r.rolname in ('pgq_reader', 'pgq_writer', 'pgq_admin')
)

select
    format(
        '%s is a member of %I%s', string_agg(quote_ident(m.rolname), ', ' order by m.rolname), o.rolname,
        case when bool_or(a.admin_option) then ' (and may make others members)' end
    ) as note
from ours as o
inner join pg_catalog.pg_auth_members as a on o.oid = a.roleid
inner join pg_catalog.pg_roles as m on a.member = m.oid
where m.rolname not in ('pgq_admin', current_user)
group by o.rolname, a.admin_option
union all
select format('%I is itself a member of %I', o.rolname, r.rolname)
from ours as o
inner join pg_catalog.pg_auth_members as a on o.oid = a.member
inner join pg_catalog.pg_roles as r on a.roleid = r.oid
where not (o.rolname = 'pgq_admin' and r.rolname in ('pgq_reader', 'pgq_writer'))
union all
select format('%I is a superuser, may create roles or may log in', o.rolname)
from ours as o
where o.rolsuper or o.rolcreaterole or o.rolcanlogin
union all
select format('pgq_admin is no member of %1$I: have a superuser run `grant %1$I to pgq_admin`', o.rolname)
from ours as o
where
    o.rolname in ('pgq_reader', 'pgq_writer')
    and not exists (
        select
        from pg_catalog.pg_auth_members as a
        inner join ours as admin on a.member = admin.oid and admin.rolname = 'pgq_admin'
        where a.roleid = o.oid
    )
order by note
