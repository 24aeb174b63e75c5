-- Say in how many seconds the next message can be taken, by the database's clock; not positive: now. The five
-- milliseconds are what take_due.sql waits beyond the time, which `datetime` may have rounded.
-- On SQL Server `readpast` passes over what another mover has in its hands, so it never waits. Keeps no lock.
-- Returns one row with one number, no row when there is no message.
select top(1) cast(datediff_big(ms, cast(sysutcdatetime() as datetime), Due) + 5 as float) / 1000 as seconds
from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
order by Due;
