-- Say whose the tables named are, and whose what they run: superusers, the role itself, the owners of the database, of schema
-- public and of the queue `beside` and its schema, roles that a superuser or the database's owner has made it a member of
-- (not PostgreSQL's own, nor the log's, whose members may be strangers), and those named in rowbus.trusted_owners are trusted.
-- Locks nothing. Returns schema, name, kind (null: no such table), what it is, untrusted owners of it and of its schema,
-- whether policies apply, whether trusted roles alone can change it, and what of untrusted owners it runs, and whose that is.
with recursive roles as materialized (
    select
        role.oid,
        role.rolname::text as name,
        role.rolsuper
    from pg_catalog.pg_roles as role
),

grantors as (
    select role.oid
    from roles as role
    inner join pg_catalog.pg_database as here on here.datname = current_database()
    where role.rolsuper or role.oid = here.datdba
),

memberships as (
    select role.oid
    from roles as role
    where role.name = current_user::text
    union distinct
    select role.oid
    from memberships
    inner join pg_catalog.pg_auth_members as membership on memberships.oid = membership.member
    inner join grantors on membership.grantor = grantors.oid
    inner join roles as role on membership.roleid = role.oid
    where
        -- from PostgreSQL 16 on, who creates a role is a member of it, and may only give it to others
        coalesce(
            (pg_catalog.to_jsonb(membership) ->> 'inherit_option')::boolean
            or (pg_catalog.to_jsonb(membership) ->> 'set_option')::boolean,
            true
        )
        and role.name not in ('pgq_reader', 'pgq_writer', 'pgq_admin')
        and role.name not like 'pg\_%'
),

trusted as materialized (
    select pg_catalog.array_agg(role.oid) as roles
    from (
        select grantors.oid
        from grantors
        union all
        select memberships.oid
        from memberships
        union all
        select namespace.nspowner as oid
        from pg_catalog.pg_namespace as namespace
        where namespace.nspname::text = 'public' or namespace.nspname::text = :'beside_schema'::text
        union all
        select relation.relowner as oid
        from pg_catalog.pg_class as relation
        inner join pg_catalog.pg_namespace as namespace on relation.relnamespace = namespace.oid
        where
            namespace.nspname::text = :'beside_schema'::text
            and relation.relname::text = :'beside_table'::text
        union all
        select role.oid
        from roles as role
        where
            role.name = 'pg_database_owner'
            or role.name in (
                select pg_catalog.btrim(named.name)
                from
                    pg_catalog.unnest(
                        pg_catalog.string_to_array(
                            pg_catalog.current_setting('rowbus.trusted_owners', true), ','
                        )
                    ) as named (name)
            )
    ) as role
),

relations as (
    select
        relation.oid,
        relation.relname,
        relation.relkind,
        relation.relowner,
        relation.relacl,
        namespace.nspname,
        namespace.nspowner,
        namespace.nspacl
    from unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
    inner join pg_catalog.pg_namespace as namespace on namespace.nspname::text = named.schema
    left join pg_catalog.pg_class as relation
        on namespace.oid = relation.relnamespace and relation.relname::text = named.name
)

select
    relations.nspname::text as schema,
    relations.relname::text as name,
    relations.relkind::text as kind,
    relation.type || ' ' || relation.identity as what,
    case when relations.relowner <> all(trusted.roles) then relations.relowner::regrole::text end as owner,
    case
        when relations.nspowner <> all(trusted.roles) then relations.nspowner::regrole::text
    end as schema_owner,
    coalesce(pg_catalog.row_security_active(relations.oid), false) as is_policed,
    not exists (
        select
        from pg_catalog.aclexplode(relations.nspacl) as granted
        where granted.privilege_type = 'CREATE' and granted.grantee <> all(trusted.roles)
        union all
        select
        from pg_catalog.aclexplode(relations.relacl) as granted
        where granted.privilege_type = 'TRIGGER' and granted.grantee <> all(trusted.roles)
    ) as is_firm,
    coalesce(foreigners.things, '{}') as things,
    coalesce(foreigners.owners, '{}') as owners
from relations
cross join trusted
left join
    lateral pg_catalog.pg_identify_object('pg_catalog.pg_class'::regclass, relations.oid, 0) as relation
on true
cross join lateral (
    select
        pg_catalog.array_agg(thing.type || ' ' || thing.identity order by thing.type, thing.identity)
            as things,
        pg_catalog.array_agg(used.owner::regrole::text order by thing.type, thing.identity) as owners
    from (
        select distinct
            needs.refclassid,
            needs.refobjid,
            owned.owner
        from (
            select
                'pg_catalog.pg_trigger'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_trigger as part
            where part.tgrelid = relations.oid and not part.tgisinternal
            union all
            select
                'pg_catalog.pg_attrdef'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_attrdef as part
            where part.adrelid = relations.oid
            union all
            select
                'pg_catalog.pg_constraint'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_constraint as part
            where part.conrelid = relations.oid
            union all
            select
                'pg_catalog.pg_policy'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_policy as part
            where part.polrelid = relations.oid
            union all
            select
                'pg_catalog.pg_rewrite'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_rewrite as part
            where part.ev_class = relations.oid
            union all
            select
                'pg_catalog.pg_class'::regclass as catalogue,
                part.indexrelid as oid
            from pg_catalog.pg_index as part
            where part.indrelid = relations.oid
            union all
            select
                'pg_catalog.pg_class'::regclass as catalogue,
                relations.oid
            limit all -- planned apart from what it is joined with, which is quicker
        ) as parts
        inner join pg_catalog.pg_depend as needs
            on parts.catalogue = needs.classid and parts.oid = needs.objid
        cross join lateral (
            select
                case needs.refclassid
                    when 'pg_catalog.pg_proc'::regclass
                        then (select it.proowner from pg_catalog.pg_proc as it where it.oid = needs.refobjid)
                    when 'pg_catalog.pg_operator'::regclass
                        then (
                            select it.oprowner from pg_catalog.pg_operator as it
                            where it.oid = needs.refobjid
                        )
                    when 'pg_catalog.pg_opclass'::regclass
                        then (
                            select it.opcowner from pg_catalog.pg_opclass as it
                            where it.oid = needs.refobjid
                        )
                    when 'pg_catalog.pg_type'::regclass
                        then (select it.typowner from pg_catalog.pg_type as it where it.oid = needs.refobjid)
                    when 'pg_catalog.pg_class'::regclass
                        then (select it.relowner from pg_catalog.pg_class as it where it.oid = needs.refobjid)
                end as owner
            order by 1 -- so that it is looked up once
        ) as owned
        where needs.refobjid <> relations.oid and owned.owner <> all(trusted.roles)
    ) as used
    cross join lateral pg_catalog.pg_identify_object(used.refclassid, used.refobjid, 0) as thing
) as foreigners
