-- Grant on one table what is granted on another.
-- Locks the catalogue row of the second; returns 1.
create or replace function pgq._grant_perms_from(
    src_schema text, src_table text, dst_schema text, dst_table text
)
returns integer
language plpgsql
strict
set search_path = pg_catalog, pgq, pg_temp
as $$
declare
    v_grant record;
begin
    for v_grant in
        select
            a.privilege_type,
            case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as grantee,
            case when a.is_grantable then ' with grant option' else '' end as options
        from pg_class as c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) as a
        where c.oid = to_regclass(format('%I.%I', src_schema, src_table))
    loop
        execute format(
            'grant %s on %I.%I to %s%s',
            v_grant.privilege_type, dst_schema, dst_table, v_grant.grantee, v_grant.options
        );
    end loop;
    return 1;
end;
$$;
