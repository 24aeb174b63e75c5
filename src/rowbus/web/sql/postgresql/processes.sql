-- Find the processes that receive from a queue: the sessions that hold the shared lock of `show_receiver.sql`.
-- Locks nothing; returns for each: the server's process, the program's name, the place (both null: not for this role to
-- see), and since when it is connected.
select
    l.pid,
    session.application_name as program,
    case
        when session.backend_start is not null
            then coalesce(host(session.client_addr), 'the server''s machine')
    end as place,
    session.backend_start as since
from hashtextextended(:'lock_name'::text, 0) as k (key)
inner join pg_locks as l
    on
        l.locktype = 'advisory'
        and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and l.objsubid = 1
        and l.classid::bigint = ((k.key >> 32) & 4294967295)
        and l.objid::bigint = (k.key & 4294967295)
left join pg_stat_activity as session on l.pid = session.pid
order by session.backend_start, l.pid
limit :'most'::integer
