-- Say whether a table (no view) is there, this role has some privileges on it, and it belongs to somebody who may decide: a superuser, this
-- role, the owner of the database or of the schema, a role that one of these has made this one a member of, or one named in
-- rowbus.trusted_owners.
-- Locks nothing; returns one row.
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
        or owner.rolname = current_user
        or owner.rolname::text in (
            select btrim(named.name)
            from unnest(string_to_array(current_setting('rowbus.trusted_owners', true), ',')) as named (name)
        )
        or exists (
            select
            from pg_auth_members as membership
            inner join pg_roles as member on membership.member = member.oid
            inner join pg_roles as grantor on membership.grantor = grantor.oid
            where
                membership.roleid = owner.oid
                and member.rolname = current_user
                and (grantor.rolsuper or grantor.oid = here.datdba)
                and owner.rolname::text not like 'pg\_%'
        )
    )
