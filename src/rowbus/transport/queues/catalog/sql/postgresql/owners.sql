-- Say whose the tables named are: superusers, the role itself, the owners of the database and of schema public, roles that a
-- superuser or the database's owner has made it a member of (not PostgreSQL's own, nor those of the log, whose members may be
-- strangers), and roles that the setting rowbus.trusted_owners names are trusted. Locks nothing, reads catalogues only.
-- Returns of each that exists schema, name, kind, owner and schema's owner (null: trusted), and whether row security policies
-- apply to this role.
with recursive grantors as (
    select role.oid
    from pg_catalog.pg_roles as role
    inner join pg_catalog.pg_database as here on here.datname = current_database()
    where role.rolsuper or role.oid = here.datdba
),

memberships as (
    select role.oid
    from pg_catalog.pg_roles as role
    where role.rolname = current_user
    union distinct
    select role.oid
    from memberships
    inner join pg_catalog.pg_auth_members as membership on memberships.oid = membership.member
    inner join grantors on membership.grantor = grantors.oid
    inner join pg_catalog.pg_roles as role on membership.roleid = role.oid
    where
        role.rolname not in ('pgq_reader', 'pgq_writer', 'pgq_admin')
        and role.rolname::text not like 'pg\_%'
),

trusted as (
    select grantors.oid
    from grantors
    union distinct
    select memberships.oid
    from memberships
    union distinct
    select namespace.nspowner as oid
    from pg_catalog.pg_namespace as namespace
    where namespace.nspname = 'public'
    union distinct
    select role.oid
    from pg_catalog.pg_roles as role
    where
        role.rolname = 'pg_database_owner'
        or role.rolname::text in (
            select btrim(named.name)
            from unnest(string_to_array(current_setting('rowbus.trusted_owners', true), ',')) as named (name)
        )
)

select
    namespace.nspname::text as schema,
    relation.relname::text as name,
    relation.relkind::text as kind,
    case
        when relation.relowner not in (select trusted.oid from trusted)
            then pg_get_userbyid(relation.relowner)::text
    end as owner,
    case
        when namespace.nspowner not in (select trusted.oid from trusted)
            then pg_get_userbyid(namespace.nspowner)::text
    end as schema_owner,
    row_security_active(relation.oid) as is_policed
from unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
inner join pg_catalog.pg_namespace as namespace on namespace.nspname = named.schema::name
inner join pg_catalog.pg_class as relation
    on
        namespace.oid = relation.relnamespace
        and relation.relname = named.name::name
