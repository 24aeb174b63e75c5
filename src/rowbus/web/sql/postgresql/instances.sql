-- Find the sessions of Rowbus's programs by their application name.
-- Locks nothing; returns for each name and place (null: not for this role to see): the name, the place, how many
-- sessions, how many of them in a transaction (null: not for this role to see), and since when.
select
    session.application_name as name,
    case
        when session.backend_start is not null
            then coalesce(host(session.client_addr), 'the server''s machine')
    end as place,
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
group by session.application_name, place
order by session.application_name, place
