-- Say who leads the moving of this table's messages: who holds the application lock that try_lead.sql takes. The server
-- shows the first 32 letters of a lock's name only, so of tables with similar names the movers of all are found.
-- Needs VIEW SERVER STATE (from SQL Server 2022 on VIEW SERVER PERFORMANCE STATE). Locks nothing.
-- Returns at most three rows: session id, login, program, host.
declare @resource nvarchar(255) = N'$(resource)';

select top(3)
    locks.request_session_id as session_id,
    sessions.login_name as login_name,
    sessions.program_name as program_name,
    sessions.host_name as host_name
from sys.dm_tran_locks as locks
inner join sys.dm_exec_sessions as sessions on locks.request_session_id = sessions.session_id
where
    locks.resource_type = N'APPLICATION'
    and locks.resource_database_id = db_id()
    and locks.request_status = N'GRANT'
    and charindex(concat(N':[', left(@resource, 32), N']:'), locks.resource_description) > 0
order by locks.request_session_id;
