-- Say whether a table is there, this role may read it, and it belongs to somebody who may decide: a superuser, the owner of
-- the database or of the schema, or a role that this one is a member of.
-- Locks nothing; returns one row.
select count(*) > 0 as readable
from pg_class as relation
inner join pg_namespace as namespace on relation.relnamespace = namespace.oid
inner join pg_roles as owner on relation.relowner = owner.oid
inner join pg_database as here on here.datname = current_database()
where
    namespace.nspname = :'schema_name'::text
    and relation.relname = :'table_name'::text
    and has_schema_privilege(namespace.oid, 'usage')
    and has_table_privilege(relation.oid, 'select')
    and (
        owner.rolsuper
        or owner.oid in (here.datdba, namespace.nspowner)
        or pg_has_role(owner.oid, 'member')
    )
