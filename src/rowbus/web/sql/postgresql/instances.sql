-- Find the sessions of Rowbus's programs by their application name.
-- Locks nothing; returns for each name and address: the name, the address (null: a local socket, or not for this role
-- to see), how many sessions, how many of them in a transaction (null: not for this role to see), and since when.
select
    session.application_name as name,
    host(session.client_addr) as address,
    count(*)::integer as sessions,
    case
        when bool_and(session.state is not null)
            then count(*) filter (where session.state <> 'idle')::integer
    end as busy,
    min(session.backend_start) as since
from pg_stat_activity as session
where
    session.datname = current_database()
    and session.application_name like 'rowbus %'
    and session.pid <> pg_backend_pid()
group by session.application_name, session.client_addr
order by session.application_name, session.client_addr
