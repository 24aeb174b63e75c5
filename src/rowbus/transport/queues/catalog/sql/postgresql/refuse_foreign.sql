-- Fail where a schema or table of these, or the function of a trigger, belongs to a role that could change what was made:
-- to another than a superuser, this role, the owner of the database or of the schema, or one in rowbus.trusted_owners.
-- For scripts and migrations, where nobody reads an answer. Locks nothing, reads catalogues only. Returns no row.
select /* fails if what was created is another role's: docs/security.md */
    (
        'Nothing was installed, for it would be built upon what another role can change: ' || made.what
        || ' belongs to ' || r.oid::regrole::text || '. Install as that role, or see what was made there, '
        || 'and have a superuser drop it, or give it to the role that installs.'
    )::boolean as refused
from (
    select
        'schema ' || oid::regnamespace::text as what,
        nspowner as owner,
        0 as host
    from pg_catalog.pg_namespace
    where nspname::text = any(:'schemas'::text[])
    union all
    select
        'table ' || c.oid::regclass::text as what,
        c.relowner as owner,
        n.nspowner as host
    from pg_catalog.pg_class as c
    inner join pg_catalog.pg_namespace as n on c.relnamespace = n.oid
    where c.oid = any(:'tables'::text[]::regclass[])
    union all
    select
        'function ' || f.oid::regprocedure::text as what,
        f.proowner as owner,
        n.nspowner as host
    from pg_catalog.pg_namespace as n
    inner join pg_catalog.pg_proc as f on n.oid = f.pronamespace
    inner join pg_catalog.pg_trigger as t on f.oid = t.tgfoid
    where t.tgrelid = any(:'tables'::text[]::regclass[]) and not t.tgisinternal
) as made
inner join pg_catalog.pg_roles as r on made.owner = r.oid
inner join pg_catalog.pg_database as d on current_database() = d.datname
where
    not r.rolsuper
    and r.oid not in (made.host, d.datdba)
    and r.rolname::text not in (current_user::text, 'pg_database_owner')
    and not coalesce(
        r.rolname::text = any(
            string_to_array(replace(current_setting('rowbus.trusted_owners', true), ' ', ''), ',')
        ),
        false
    )
