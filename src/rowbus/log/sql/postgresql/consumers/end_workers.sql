-- End the workers' sessions that a former leader has left, with their transactions, and wait for their end, 5 s each at
-- most. Sessions of roles that this role may not end stay: what they do cannot commit, but what they lock stays locked.
-- Locks nothing. Returns how many were ended.
select count(pg_terminate_backend(l.pid, 5000)) as ended
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
inner join pg_stat_activity as a on l.pid = a.pid
inner join pg_roles as r on a.usesysid = r.oid
where
    l.pid <> pg_backend_pid()
    and pg_has_role(a.usesysid, 'usage')
    and (not r.rolsuper or current_setting('is_superuser') = 'on')
