-- List the functions of schema pgq that PUBLIC may execute although privileges are split by role and grant them to one
-- role alone. Only where pgq._function_role is the one that was installed. Locks nothing; returns one row each, a
-- signature.
select format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)) as signature
from pg_catalog.pg_proc as p
inner join pg_catalog.pg_namespace as n on p.pronamespace = n.oid
where
    n.nspname = 'pgq'
    and p.prokind = 'f'
    and pgq._function_role(p.proname, p.prosecdef) <> 'public'
    and exists (
        select
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
        where a.grantee = 0
    )
order by 1
