-- Put one of many messages in a queue whose table has no column Recoverable; otherwise as copy.sql, word for word.
-- Locks only the rows it inserts, so it never waits. Returns nothing.
declare @expires datetime = cast(nullif(N'$(expires)', N'') as datetime2);
declare @headers nvarchar(max) = N'$(headers)';
declare @body varbinary(max) = convert(varbinary(max), N'$(body)');

insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Expires, Headers, Body)
values (newid(), @expires, @headers, @body);
