-- Find the programs whose application name says that loops of theirs ended though nobody asked them to.
-- Locks nothing; returns for each name and place (null: not for this role to see): the name without the mark, the
-- place, and how often loops ended.
select
    substring(session.application_name from e'^(.*) \\(ended loops: [0-9]{1,6}\\)$') as name,
    case
        when session.backend_start is not null
            then coalesce(host(session.client_addr), 'the server''s machine')
    end as place,
    max(substring(session.application_name from e'\\(ended loops: ([0-9]{1,6})\\)$')::integer) as times
from pg_stat_activity as session
where
    session.datname = current_database()
    and session.pid <> pg_backend_pid()
    and session.application_name ~ e' \\(ended loops: [0-9]{1,6}\\)$'
group by name, place
order by name, place
