-- Find which consumers Spark's drivers read as: each holds the consumer's session lock (database/locks.py), and its
-- application name says that it is one.
-- Locks nothing. Returns a log and a consumer a row.
select
    n.log,
    n.consumer
from unnest(:'logs'::text[], :'consumers'::text[], :'locks'::text[]) as n (log, consumer, lock)
cross join lateral hashtextextended(n.lock, 0) as k (key)
inner join pg_locks as l
    on
        l.locktype = 'advisory'
        and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
        and l.classid::bigint = ((k.key >> 32) & 4294967295)
        and l.objid::bigint = (k.key & 4294967295)
inner join pg_stat_activity as a on l.pid = a.pid
where a.application_name like 'rowbus spark %'
