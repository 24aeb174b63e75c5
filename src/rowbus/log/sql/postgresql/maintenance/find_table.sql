-- Find a table by the name maintenance knows it by, written as in SQL. Locks nothing.
-- Returns its schema and its name, and who owns it if this role may not vacuum it; or no row.
select
    n.nspname::text,
    c.relname::text,
    case
        when pg_has_role(c.relowner, 'usage') or pg_has_role(d.datdba, 'usage') then null
        when current_setting('server_version_num')::integer < 170000 then pg_get_userbyid(c.relowner)::text
        when not has_table_privilege(c.oid, 'maintain') then pg_get_userbyid(c.relowner)::text
    end as foreign_owner
from pg_class as c
inner join pg_namespace as n on c.relnamespace = n.oid
inner join pg_database as d on d.datname = current_database()
where c.oid = to_regclass(:'name'::text)
