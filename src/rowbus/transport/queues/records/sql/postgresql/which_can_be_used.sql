-- Say which of some tables (no views) are there, this role has the privileges on that it needs, and belong to somebody who
-- may decide: a superuser, this role, who has the rights of the database's owner or the schema's, a role that a superuser or
-- the database's owner has made this one a member of, itself or by others (as in `owners.sql`), or one in
-- rowbus.trusted_owners. Roles are looked up by functions: each pg_roles joined takes longer to plan than the rest to run.
-- A table's privileges are one text, with commas. Locks nothing; returns the numbers of those tables, counted from 1.
with recursive memberships as (
    select quote_ident(current_user)::regrole::oid as oid
    union distinct
    select membership.roleid as oid
    from memberships
    inner join pg_auth_members as membership on memberships.oid = membership.member
    where
        (
            membership.grantor = (
                select here.datdba
                from pg_database as here
                where here.datname = current_database()
            )
            or (select grantor.rolsuper from pg_roles as grantor where grantor.oid = membership.grantor)
        )
        and coalesce(
            (to_jsonb(membership) ->> 'inherit_option')::boolean
            or (to_jsonb(membership) ->> 'set_option')::boolean,
            true
        )
        and pg_get_userbyid(membership.roleid) not in ('pgq_reader', 'pgq_writer', 'pgq_admin')
        and pg_get_userbyid(membership.roleid)::text not like e'pg\\_%'
)

select asked.number
from unnest(:'schema_names'::text[], :'table_names'::text[], :'privileges'::text[])
    with ordinality as asked (schema_name, table_name, privileges, number)
inner join pg_namespace as namespace on asked.schema_name = namespace.nspname
inner join pg_class as relation
    on namespace.oid = relation.relnamespace and asked.table_name = relation.relname
inner join pg_database as here on here.datname = current_database()
where
    relation.relkind in ('r', 'p')
    and has_schema_privilege(namespace.oid, 'usage')
    and not exists (
        select
        from unnest(string_to_array(asked.privileges, ',')) as needed (privilege)
        where not has_table_privilege(relation.oid, needed.privilege)
    )
    and (
        pg_has_role(relation.relowner, here.datdba, 'usage')
        or pg_has_role(relation.relowner, namespace.nspowner, 'usage')
        or relation.relowner in (select memberships.oid from memberships)
        or pg_get_userbyid(relation.relowner)::text in (
            select btrim(named.name)
            from unnest(string_to_array(current_setting('rowbus.trusted_owners', true), ',')) as named (name)
        )
    )
