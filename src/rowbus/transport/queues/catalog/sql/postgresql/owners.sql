-- Say whose the tables named are, and whose what they run, their partitions, children and types of columns included. Trusted
-- are superusers, the role itself, who has the rights of the database's owner, owners of schema public and of the queue
-- `beside` and its schema, roles that such a one made it a member of (not PostgreSQL's own, nor the log's), and those in
-- rowbus.trusted_owners. Locks nothing. Returns schema, name, kind (null: no such table), what it is, untrusted owners of it
-- and its schema, whether policies apply, whether only trusted roles can change it, what untrusted it runs, and whose.
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
    where pg_catalog.pg_has_role(role.oid, here.datdba, 'usage') -- a superuser has
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
        and role.name not like e'pg\\_%'
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

named as materialized (
    select
        pg_catalog.array_agg(namespace.oid) as schemas,
        pg_catalog.array_agg(relation.oid) as tables
    from unnest(:'schemas'::text[], :'tables'::text[]) as named (schema, name)
    inner join pg_catalog.pg_namespace as namespace on namespace.nspname::text = named.schema
    left join pg_catalog.pg_class as relation
        on namespace.oid = relation.relnamespace and relation.relname::text = named.name
),

relations as (
    -- arrays keep the planner's estimate small, however many are named; above it the plan is compiled, for seconds
    select
        relation.oid,
        relation.relname,
        relation.relkind,
        relation.relowner,
        namespace.nspname,
        namespace.nspowner,
        namespace.nspacl
    from named
    cross join lateral unnest(named.schemas, named.tables) as pair (schema, oid)
    inner join pg_catalog.pg_namespace as namespace on pair.schema = namespace.oid
    left join pg_catalog.pg_class as relation on pair.oid = relation.oid
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
        from pg_catalog.pg_class as member
        cross join lateral pg_catalog.aclexplode(member.relacl) as granted
        where
            member.oid = any(made_of.tables)
            and granted.privilege_type = 'TRIGGER'
            and granted.grantee <> all(trusted.roles)
    ) as is_firm,
    coalesce(foreigners.things, '{}') as things,
    coalesce(foreigners.owners, '{}') as owners
from relations
cross join trusted
left join
    lateral pg_catalog.pg_identify_object('pg_catalog.pg_class'::regclass, relations.oid, 0) as relation
on true
cross join lateral (
    with recursive whole as (
        select
            'pg_catalog.pg_class'::regclass::oid as catalogue,
            relations.oid,
            true as is_table
        union distinct
        select
            next.catalogue,
            next.oid,
            next.is_table
        from whole
        cross join lateral (
            select
                'pg_catalog.pg_class'::regclass::oid as catalogue,
                child.inhrelid as oid,
                true as is_table
            from pg_catalog.pg_inherits as child
            where whole.is_table and whole.oid = child.inhparent
            union all
            select
                needs.refclassid as catalogue,
                needs.refobjid as oid,
                false as is_table
            from pg_catalog.pg_depend as needs
            where
                whole.catalogue = needs.classid
                and whole.oid = needs.objid
                and needs.refclassid = 'pg_catalog.pg_type'::regclass
            union all
            select
                'pg_catalog.pg_class'::regclass::oid as catalogue,
                composite.typrelid as oid,
                false as is_table
            from pg_catalog.pg_type as composite
            where
                whole.catalogue = 'pg_catalog.pg_type'::regclass
                and whole.oid = composite.oid
                and composite.typrelid <> 0
        ) as next
    )

    select -- arrays, as above
        pg_catalog.array_agg(whole.oid) filter (where whole.is_table) as tables,
        pg_catalog.array_agg(whole.oid) filter (where not whole.is_table) as types
    from whole
) as made_of
cross join lateral (
    select
        pg_catalog.array_agg(used.oid)
            filter (where used.catalogue = 'pg_catalog.pg_proc'::regclass) as functions,
        pg_catalog.array_agg(used.oid)
            filter (where used.catalogue = 'pg_catalog.pg_operator'::regclass) as operators,
        pg_catalog.array_agg(used.oid)
            filter (where used.catalogue = 'pg_catalog.pg_opclass'::regclass) as operator_classes,
        pg_catalog.array_agg(used.oid)
            filter (where used.catalogue = 'pg_catalog.pg_type'::regclass) as types,
        pg_catalog.array_agg(used.oid)
            filter (where used.catalogue = 'pg_catalog.pg_class'::regclass) as relations
    from (
        select
            needs.refclassid as catalogue,
            needs.refobjid as oid
        from (
            select
                'pg_catalog.pg_trigger'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_trigger as part
            where part.tgrelid = any(made_of.tables) and not part.tgisinternal
            union all
            select
                'pg_catalog.pg_attrdef'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_attrdef as part
            where part.adrelid = any(made_of.tables)
            union all
            select
                'pg_catalog.pg_constraint'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_constraint as part
            where part.conrelid = any(made_of.tables)
            union all
            select
                'pg_catalog.pg_constraint'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_constraint as part
            where part.contypid = any(made_of.types) and part.contypid <> 0 -- as most are
            union all
            select
                'pg_catalog.pg_policy'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_policy as part
            where part.polrelid = any(made_of.tables)
            union all
            select
                'pg_catalog.pg_rewrite'::regclass as catalogue,
                part.oid
            from pg_catalog.pg_rewrite as part
            where part.ev_class = any(made_of.tables)
            union all
            select
                'pg_catalog.pg_class'::regclass as catalogue,
                part.indexrelid as oid
            from pg_catalog.pg_index as part
            where part.indrelid = any(made_of.tables)
            union all
            select
                'pg_catalog.pg_class'::regclass as catalogue,
                part.oid
            from pg_catalog.unnest(made_of.tables || made_of.types) as part (oid)
            union all
            select
                'pg_catalog.pg_type'::regclass as catalogue,
                part.oid
            from pg_catalog.unnest(made_of.types) as part (oid)
            limit all -- planned apart from what it is joined with, which is quicker
        ) as parts
        cross join lateral (
            select
                depend.refclassid,
                depend.refobjid
            from pg_catalog.pg_depend as depend
            where
                parts.catalogue = depend.classid
                and parts.oid = depend.objid
                and depend.refobjid <> relations.oid
            order by depend.refobjid -- so that each is looked up by the index
        ) as needs
        union distinct
        select
            'pg_catalog.pg_class'::regclass as catalogue,
            member.oid
        from pg_catalog.unnest(made_of.tables) as member (oid)
        where member.oid <> relations.oid
    ) as used
) as needed
cross join lateral (
    select
        pg_catalog.array_agg(thing.type || ' ' || thing.identity order by thing.type, thing.identity)
            as things,
        pg_catalog.array_agg(owned.owner::regrole::text order by thing.type, thing.identity) as owners
    from (
        select
            'pg_catalog.pg_proc'::regclass as catalogue,
            it.oid,
            it.proowner as owner
        from pg_catalog.pg_proc as it
        where it.oid = any(needed.functions)
        union all
        select
            'pg_catalog.pg_operator'::regclass as catalogue,
            it.oid,
            it.oprowner as owner
        from pg_catalog.pg_operator as it
        where it.oid = any(needed.operators)
        union all
        select
            'pg_catalog.pg_opclass'::regclass as catalogue,
            it.oid,
            it.opcowner as owner
        from pg_catalog.pg_opclass as it
        where it.oid = any(needed.operator_classes)
        union all
        select
            'pg_catalog.pg_type'::regclass as catalogue,
            it.oid,
            it.typowner as owner
        from pg_catalog.pg_type as it
        where it.oid = any(needed.types)
        union all
        select
            'pg_catalog.pg_class'::regclass as catalogue,
            it.oid,
            it.relowner as owner
        from pg_catalog.pg_class as it
        where it.oid = any(needed.relations)
    ) as owned
    cross join lateral pg_catalog.pg_identify_object(owned.catalogue, owned.oid, 0) as thing
    where owned.owner <> all(trusted.roles)
) as foreigners
