-- Show the session that holds the lock of the one Rowbus ticker of this database; any session can take it: at most one
-- row. Where other roles' sessions may not be seen (without the privileges of pg_read_all_stats), address and time are
-- NULL.
-- Locks nothing.
create or replace view pgq.ticker_leader as
select
    l.pid,
    a.usename as role_name,
    a.application_name,
    a.client_addr,
    a.backend_start as connected_at
from hashtextextended('rowbus ticker', 0) as k (key)
inner join pg_locks as l
    on l.locktype = 'advisory'
        and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
        and l.classid::bigint = ((k.key >> 32) & 4294967295)
        and l.objid::bigint = (k.key & 4294967295)
left join pg_stat_activity as a on l.pid = a.pid;
