-- Say who holds one of our session locks, by its name (see database/locks.py).
-- Locks nothing. Returns at most one row: process id, role, application, address, when it connected (UTC), whether the
-- role is a superuser. Address and time are NULL for the sessions of others without the privileges of pg_read_all_stats.
select
    l.pid,
    a.usename::text as role,
    a.application_name as application,
    case
        when a.backend_start is not null then coalesce(host(a.client_addr), 'the local socket')
    end as address,
    a.backend_start at time zone 'UTC' as since,
    r.rolsuper as is_superuser
from
    hashtextextended(:'lock_name'::text, 0) as k (key)
inner join pg_locks as l
    on
        l.locktype = 'advisory'
        and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
        and l.classid::bigint = ((k.key >> 32) & 4294967295)
        and l.objid::bigint = (k.key & 4294967295)
left join pg_stat_activity as a on l.pid = a.pid
left join pg_roles as r on a.usesysid = r.oid
order by l.pid
limit 1
