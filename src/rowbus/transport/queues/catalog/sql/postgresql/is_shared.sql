-- Say whether anything in this database belongs to a role that is no superuser, not this one, and not the database's owner;
-- or row security applies to this role on a table; or the catalogues are too large to be read through. Where not, owners.sql,
-- which takes many times as long, would find nothing. What has a smaller oid came with PostgreSQL, and only a superuser could
-- give it away. It has no parameters, so that a session plans it once. Locks nothing; returns one row.
with strangers as materialized (
    select pg_catalog.array_agg(role.oid) as roles
    from pg_catalog.pg_roles as role
    cross join pg_catalog.pg_database as here
    where
        here.datname = current_database()
        and not role.rolsuper
        and role.oid <> here.datdba
        and role.rolname not in (current_user, 'pg_database_owner')
)

select
    case
        when
            pg_catalog.pg_relation_size('pg_catalog.pg_class')
            + pg_catalog.pg_relation_size('pg_catalog.pg_type')
            + pg_catalog.pg_relation_size('pg_catalog.pg_proc') > 16777216
            then true
        else
            exists (
                select from pg_catalog.pg_class as it
                where it.oid >= 16384 and it.relowner = any(strangers.roles)
            )
            or exists (
                select from pg_catalog.pg_namespace as it
                where it.nspowner = any(strangers.roles)
            )
            or exists (
                select from pg_catalog.pg_proc as it
                where it.oid >= 16384 and it.proowner = any(strangers.roles)
            )
            or exists (
                select from pg_catalog.pg_type as it
                where it.oid >= 16384 and it.typowner = any(strangers.roles)
            )
            or exists (
                select from pg_catalog.pg_operator as it
                where it.oid >= 16384 and it.oprowner = any(strangers.roles)
            )
            or exists (
                select from pg_catalog.pg_opclass as it
                where it.oid >= 16384 and it.opcowner = any(strangers.roles)
            )
            or exists (
                select from pg_catalog.pg_class as it
                where it.oid >= 16384 and it.relrowsecurity and pg_catalog.row_security_active(it.oid)
            )
    end as is_shared
from strangers
