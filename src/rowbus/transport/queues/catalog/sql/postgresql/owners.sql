-- Say whose the tables named are, and whose what they run: superusers, the role itself, the owners of the database, of schema
-- public and of the queue `beside` and its schema, roles that a superuser or the database's owner has made it a member of
-- (not PostgreSQL's own, nor the log's, whose members may be strangers), and those named in rowbus.trusted_owners are trusted.
-- Locks nothing. Returns schema, name, kind (null: no such table), what it is, untrusted owners of it and of its schema,
-- whether policies apply, whether trusted roles alone can change it, and what of untrusted owners it runs, and whose that is.
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
        -- from PostgreSQL 16 on, who creates a role is a member of it, and may only give it to others
        coalesce(
            (pg_catalog.to_jsonb(membership) ->> 'inherit_option')::boolean
            or (pg_catalog.to_jsonb(membership) ->> 'set_option')::boolean,
            true
        )
        and role.rolname not in ('pgq_reader', 'pgq_writer', 'pgq_admin')
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
    where namespace.nspname::text = 'public' or namespace.nspname::text = :'beside_schema'::text
    union distinct
    select relation.relowner as oid
    from pg_catalog.pg_class as relation
    inner join pg_catalog.pg_namespace as namespace on relation.relnamespace = namespace.oid
    where namespace.nspname::text = :'beside_schema'::text and relation.relname::text = :'beside_table'::text
    union distinct
    select role.oid
    from pg_catalog.pg_roles as role
    where
        role.rolname = 'pg_database_owner'
        or role.rolname::text in (
            select pg_catalog.btrim(named.name)
            from
                pg_catalog.unnest(
                    pg_catalog.string_to_array(pg_catalog.current_setting('rowbus.trusted_owners', true), ',')
                ) as named (name)
        )
),

relations as (
    select
        relation.oid,
        relation.relname,
        relation.relkind,
        relation.relowner,
        namespace.nspname,
        namespace.nspowner,
        namespace.nspacl
    from unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
    inner join pg_catalog.pg_namespace as namespace on namespace.nspname::text = named.schema
    left join pg_catalog.pg_class as relation
        on namespace.oid = relation.relnamespace and relation.relname::text = named.name
),

members as (
    select
        relations.oid as root,
        relations.oid
    from relations
    union distinct
    select
        members.root,
        child.inhrelid as oid
    from members
    inner join pg_catalog.pg_inherits as child on members.oid = child.inhparent
),

parts as (
    select
        tgrelid as relation,
        'pg_catalog.pg_trigger'::regclass as catalogue,
        oid
    from pg_catalog.pg_trigger
    where not tgisinternal
    union all
    select
        adrelid as relation,
        'pg_catalog.pg_attrdef'::regclass as catalogue,
        oid
    from pg_catalog.pg_attrdef
    union all
    select
        conrelid as relation,
        'pg_catalog.pg_constraint'::regclass as catalogue,
        oid
    from pg_catalog.pg_constraint
    union all
    select
        polrelid as relation,
        'pg_catalog.pg_policy'::regclass as catalogue,
        oid
    from pg_catalog.pg_policy
    union all
    select
        ev_class as relation,
        'pg_catalog.pg_rewrite'::regclass as catalogue,
        oid
    from pg_catalog.pg_rewrite
    union all
    select
        indrelid as relation,
        'pg_catalog.pg_class'::regclass as catalogue,
        indexrelid as oid
    from pg_catalog.pg_index
    union all
    select
        oid as relation,
        'pg_catalog.pg_class'::regclass as catalogue,
        oid
    from pg_catalog.pg_class
),

uses as (
    select
        members.root,
        parts.catalogue,
        parts.oid
    from members
    inner join parts on members.oid = parts.relation
    union distinct
    select
        uses.root,
        deeper.catalogue,
        deeper.oid
    from uses
    cross join lateral (
        select
            needs.refclassid::regclass as catalogue,
            needs.refobjid as oid
        from pg_catalog.pg_depend as needs
        where
            needs.classid = uses.catalogue
            and needs.objid = uses.oid
            and needs.refclassid = 'pg_catalog.pg_type'::regclass
        union all
        select
            'pg_catalog.pg_constraint'::regclass as catalogue,
            checked.oid
        from pg_catalog.pg_constraint as checked
        where checked.contypid = uses.oid and uses.catalogue = 'pg_catalog.pg_type'::regclass
    ) as deeper
),

owned as (
    select
        'pg_catalog.pg_proc'::regclass as catalogue,
        oid,
        proowner as owner
    from pg_catalog.pg_proc
    union all
    select
        'pg_catalog.pg_operator'::regclass as catalogue,
        oid,
        oprowner as owner
    from pg_catalog.pg_operator
    union all
    select
        'pg_catalog.pg_opclass'::regclass as catalogue,
        oid,
        opcowner as owner
    from pg_catalog.pg_opclass
    union all
    select
        'pg_catalog.pg_type'::regclass as catalogue,
        oid,
        typowner as owner
    from pg_catalog.pg_type
    union all
    select
        'pg_catalog.pg_class'::regclass as catalogue,
        oid,
        relowner as owner
    from pg_catalog.pg_class
)

select
    relations.nspname::text as schema,
    relations.relname::text as name,
    relations.relkind::text as kind,
    relation.type || ' ' || relation.identity as what,
    case
        when relations.relowner not in (select trusted.oid from trusted)
            then relations.relowner::regrole::text
    end as owner,
    case
        when relations.nspowner not in (select trusted.oid from trusted)
            then relations.nspowner::regrole::text
    end as schema_owner,
    coalesce(pg_catalog.row_security_active(relations.oid), false) as is_policed,
    not exists (
        select
        from pg_catalog.aclexplode(relations.nspacl) as granted
        where granted.privilege_type = 'CREATE' and granted.grantee not in (select trusted.oid from trusted)
        union all
        select
        from members
        inner join pg_catalog.pg_class as part on members.oid = part.oid
        cross join lateral pg_catalog.aclexplode(part.relacl) as granted
        where
            members.root = relations.oid
            and granted.privilege_type = 'TRIGGER'
            and granted.grantee not in (select trusted.oid from trusted)
    ) as is_firm,
    coalesce(foreigners.things, '{}') as things,
    coalesce(foreigners.owners, '{}') as owners
from relations
left join
    lateral pg_catalog.pg_identify_object('pg_catalog.pg_class'::regclass, relations.oid, 0) as relation
on true
left join (
    select
        used.root,
        pg_catalog.array_agg(thing.type || ' ' || thing.identity order by thing.type, thing.identity)
            as things,
        pg_catalog.array_agg(used.owner::regrole::text order by thing.type, thing.identity) as owners
    from (
        select distinct
            uses.root,
            owned.catalogue,
            owned.oid,
            owned.owner
        from uses
        inner join pg_catalog.pg_depend as needs
            on uses.catalogue = needs.classid and uses.oid = needs.objid
        inner join owned on needs.refclassid = owned.catalogue and needs.refobjid = owned.oid
        where
            owned.oid <> uses.root
            and owned.owner not in (select trusted.oid from trusted)
        union distinct
        select
            members.root,
            'pg_catalog.pg_class'::regclass as catalogue,
            part.oid,
            part.relowner as owner
        from members
        inner join pg_catalog.pg_class as part on members.oid = part.oid
        where
            part.oid <> members.root
            and part.relowner not in (select trusted.oid from trusted)
    ) as used
    cross join lateral pg_catalog.pg_identify_object(used.catalogue, used.oid, 0) as thing
    group by used.root
) as foreigners on relations.oid = foreigners.root
