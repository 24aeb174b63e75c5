-- Say who holds the lock that makes a process the only one of a consumer's name (see log/try_lead.sql).
-- Locks nothing. Returns process id, application name, address and the time it connected, or no row.
select
    l.pid,
    a.application_name,
    coalesce(host(a.client_addr), 'the local socket') as address,
    to_char(a.backend_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as since
from
    hashtextextended(
        format('rowbus consumer %s %s %s', :'log'::text, :'consumer'::text, ''), 0
    ) as k (key)
inner join pg_locks as l
    on
        l.locktype = 'advisory'
        and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
        and l.classid::bigint = ((k.key >> 32) & 4294967295)
        and l.objid::bigint = (k.key & 4294967295)
left join pg_stat_activity as a on l.pid = a.pid
order by l.pid
limit 1
