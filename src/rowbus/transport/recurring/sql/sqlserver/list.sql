-- List the schedules of an endpoint, by name, with the tick that each waits for and the last one that was sent.
-- On SQL Server it waits for a transaction that advances one of them. Keeps no lock. Returns a row each: name, schedule,
-- next due, last sent, and the database's time.
select
    known.Name,
    known.Schedule,
    known.NextDue,
    known.LastSent,
    sysutcdatetime() as At
from [$(catalog)].[$(schema)].[$(recurring)] as known
order by known.Name;
