-- List the functions of these schemas with what `verify` compares: name, signature, body (NULL: PostgreSQL keeps it
-- in a form of its own), whether it runs with its owner's rights, its pinned search path or NULL, whether PUBLIC may
-- execute it.
-- Reads catalogues only. Locks nothing; returns one row each.
select
    n.nspname || '.' || p.proname as name,
    format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) as signature,
    case when p.prosqlbody is null then p.prosrc end as body,
    p.prosecdef as runs_as_owner,
    (
        select substr(c.entry, 13)
        from unnest(p.proconfig) as c (entry)
        where c.entry like e'search\\_path=%'
    ) as search_path,
    exists(
        select
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
        where a.grantee = 0
    ) as is_public
from pg_catalog.pg_proc as p
inner join pg_catalog.pg_namespace as n on p.pronamespace = n.oid
where n.nspname = any(:'schemas'::text[])
order by 2
