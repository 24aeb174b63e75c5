-- Find the sessions that have a transaction open and do nothing: no receiver can take what they have locked, and ghost
-- rows stay. A login without VIEW SERVER STATE sees only its own session.
-- Locks nothing; returns program, session, login, status and for how many seconds each has done nothing, the longest first.
select
    sessions.program_name as program_name,
    sessions.session_id as session_id,
    sessions.login_name as login_name,
    sessions.status as status,
    datediff_big(ms, sessions.last_request_end_time, getdate()) as idle_ms
from sys.dm_exec_sessions as sessions
where
    sessions.open_transaction_count > 0
    and sessions.status = N'sleeping'
    and sessions.session_id <> @@spid
order by idle_ms desc;
