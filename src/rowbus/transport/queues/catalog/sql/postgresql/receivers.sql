-- Find who receives from queues: the sessions that hold the shared lock of `show_receiver.sql`.
-- Locks nothing; returns for each queue and place (null: not for this role to see): the queue, the place, how many
-- processes, and since when the first and the last of them are connected.
select
    named.queue,
    case
        when session.backend_start is not null
            then coalesce(host(session.client_addr), 'the server''s machine')
    end as place,
    count(*)::integer as processes,
    min(session.backend_start) as first_since,
    max(session.backend_start) as last_since
from unnest(:'queues'::text[], :'lock_names'::text[]) as named (queue, lock_name)
cross join lateral hashtextextended(named.lock_name, 0) as k (key)
inner join pg_locks as l
    on
        l.locktype = 'advisory'
        and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
        and l.classid::bigint = ((k.key >> 32) & 4294967295)
        and l.objid::bigint = (k.key & 4294967295)
left join pg_stat_activity as session on l.pid = session.pid
group by named.queue, place
order by named.queue, place
