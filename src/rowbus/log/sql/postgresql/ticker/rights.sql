-- Read whose rights a ticker would lend to whom: its role, whether that is a superuser, the owner of schema pgq (NULL:
-- there is no such schema), whether that owner is a superuser or the owner of this database; and whether the server
-- takes connections from one user of its machine alone. Reads nothing in schema pgq, which an untrusted role may own.
-- Locks nothing; returns one row.
select
    quote_ident(me.rolname) as role_name,
    me.rolsuper as is_superuser,
    quote_ident(owner.rolname) as schema_owner,
    coalesce(owner.rolsuper, false) as owner_is_superuser,
    coalesce(owner.oid = d.datdba, false) as owner_is_databases,
    current_setting('listen_addresses') = ''
    and current_setting('unix_socket_permissions') in ('0700', '0600') as is_private
from pg_catalog.pg_roles as me
inner join pg_catalog.pg_database as d on d.datname = current_database()
left join pg_catalog.pg_namespace as n on n.nspname = 'pgq'
left join pg_catalog.pg_roles as owner on n.nspowner = owner.oid
where me.rolname = current_user
