-- Say whether a table (no view) is there, this role has some privileges on it, and it belongs to somebody who may decide: a
-- superuser, this role, the owner of the database or of the schema, a role that a superuser or the database's owner has
-- made this one a member of, itself or by others (as in `owners.sql`), or one named in rowbus.trusted_owners.
-- Locks nothing; returns one row.
with recursive memberships as (
    select role.oid
    from pg_roles as role
    where role.rolname = current_user
    union distinct
    select membership.roleid as oid
    from memberships
    inner join pg_auth_members as membership on memberships.oid = membership.member
    inner join pg_roles as role on membership.roleid = role.oid
    inner join pg_roles as grantor on membership.grantor = grantor.oid
    inner join pg_database as here on here.datname = current_database()
    where
        (grantor.rolsuper or grantor.oid = here.datdba)
        -- from PostgreSQL 16 on, who creates a role is a member of it, and may only give it to others
        and coalesce(
            (to_jsonb(membership) ->> 'inherit_option')::boolean
            or (to_jsonb(membership) ->> 'set_option')::boolean,
            true
        )
        and role.rolname not in ('pgq_reader', 'pgq_writer', 'pgq_admin')
        and role.rolname::text not like 'pg\_%'
)

select count(*) > 0 as usable
from pg_class as relation
inner join pg_namespace as namespace on relation.relnamespace = namespace.oid
inner join pg_roles as owner on relation.relowner = owner.oid
inner join pg_database as here on here.datname = current_database()
where
    namespace.nspname = :'schema_name'::text
    and relation.relname = :'table_name'::text
    and relation.relkind in ('r', 'p')
    and has_schema_privilege(namespace.oid, 'usage')
    and not exists (
        select
        from unnest(:'privileges'::text[]) as asked (privilege)
        where not has_table_privilege(relation.oid, asked.privilege)
    )
    and (
        owner.rolsuper
        or owner.oid in (here.datdba, namespace.nspowner)
        or owner.oid in (select memberships.oid from memberships)
        or owner.rolname::text in (
            select btrim(named.name)
            from unnest(string_to_array(current_setting('rowbus.trusted_owners', true), ',')) as named (name)
        )
    )
