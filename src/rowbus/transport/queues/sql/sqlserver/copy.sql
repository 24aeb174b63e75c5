-- Put one of many messages in the queue; the driver runs it once a row, in one transaction of the caller's.
-- Locks only the rows it inserts, so it never waits. Returns nothing. `expires` comes from expiry.sql, so that the
-- database's clock is the only one.
declare @expires datetime = cast(nullif(N'$(expires)', N'') as datetime2);
declare @headers nvarchar(max) = N'$(headers)';
declare @body varbinary(max) = convert(varbinary(max), N'$(body)');

insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Recoverable, Expires, Headers, Body)
values (newid(), 1, @expires, @headers, @body);
