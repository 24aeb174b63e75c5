-- Find a function by the name maintenance knows it by, written as in SQL; without a schema, along the search path.
-- Locks nothing. Returns its schema, its name, and the untrusted owners of functions of that name: all but superusers,
-- the owner of schema pgq and this role itself. Or no row.
with wanted as (
    select parse_ident(:'name'::text) as parts
),

found as (
    select
        n.nspname,
        p.proname,
        p.proowner
    from wanted as w
    inner join pg_proc as p on w.parts[cardinality(w.parts)] = p.proname
    inner join pg_namespace as n on p.pronamespace = n.oid
    where
        case
            when cardinality(w.parts) = 1 then pg_function_is_visible(p.oid)
            else n.nspname = w.parts[1]
        end
)

select
    f.nspname::text as schema_name,
    f.proname::text as function_name,
    string_agg(distinct quote_ident(r.rolname), ', ') filter (
        where not r.rolsuper
        and r.rolname <> current_user
        and r.oid is distinct from (
            select n.nspowner
            from pg_namespace as n
            where n.nspname = 'pgq'
        )
    ) as untrusted_owners
from found as f
inner join pg_roles as r on f.proowner = r.oid
group by f.nspname, f.proname
