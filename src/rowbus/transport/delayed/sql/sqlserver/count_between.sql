-- Count the messages that are due from one instant (UTC; empty: the first) until before another (empty: the last), up to
-- `most`.
-- On SQL Server `readpast` passes over what a mover has in its hands, so it never waits. Keeps no lock.
-- Returns one row with one number.
declare @first datetime = cast(nullif(N'$(first)', N'') as datetime2);
declare @last datetime = cast(nullif(N'$(last)', N'') as datetime2);
declare @most int = N'$(most)';

select count(*) as found
from (
    select top(@most) Due
    from [$(catalog)].[$(schema)].[$(delayed)] with (readpast)
    where (@first is null or Due >= @first) and (@last is null or Due < @last)
) as counted;
