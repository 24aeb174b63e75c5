-- Find the roles that may give the place (`seq`) of a message that they insert, beside the table's owner: those that may insert
-- into the whole table, as grants of earlier versions said, or into that column. Reads catalogues only. Locks nothing.
-- Returns the table, as it was given, and the role.
select distinct
    given.name as table_name,
    coalesce(r.rolname::text, 'PUBLIC') as grantee
from unnest(:'tables'::text[]) as given (name)
inner join pg_catalog.pg_class as c on c.oid = pg_catalog.to_regclass(given.name)::oid
inner join pg_catalog.pg_attribute as a on c.oid = a.attrelid
cross join lateral (values (c.relacl), (a.attacl)) as granted (acl)
cross join lateral pg_catalog.aclexplode(granted.acl) as p
left join pg_catalog.pg_roles as r on p.grantee = r.oid
where a.attname::text = 'seq' and p.privilege_type = 'INSERT' and p.grantee <> c.relowner
order by given.name, grantee
