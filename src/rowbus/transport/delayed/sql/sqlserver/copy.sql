-- Store one of many delayed messages; the driver runs it once a row, in one transaction of the caller's.
-- Locks only the rows it inserts, so it never waits. Returns nothing. `due` comes from due.sql, so that the database's
-- clock is the only one; the margin lets the rounding of its text to milliseconds make nothing due early.
declare @due datetime = dateadd(ms, 2, cast(N'$(due)' as datetime2));
declare @headers nvarchar(max) = N'$(headers)';
declare @body varbinary(max) = convert(varbinary(max), N'$(body)');

insert into [$(catalog)].[$(schema)].[$(delayed)] (Headers, Body, Due)
values (@headers, @body, @due);
