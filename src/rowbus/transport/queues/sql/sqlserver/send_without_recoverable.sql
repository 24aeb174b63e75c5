-- Put one message in a queue whose table has no column Recoverable; otherwise as send.sql, word for word.
-- Locks only the row it inserts, so it never waits. Returns nothing. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @headers nvarchar(max) = N'$(headers)';
declare @body varbinary(max) = convert(varbinary(max), N'$(body)');
declare @days int = cast(nullif(N'$(expires_in_days)', N'') as int);
declare @ms int = cast(nullif(N'$(expires_in_ms)', N'') as int);
declare @expires datetime = case
    when @days is not null then dateadd(ms, @ms, dateadd(day, @days, sysutcdatetime()))
end;

insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Expires, Headers, Body)
values (newid(), @expires, @headers, @body);

if @nocount = 0 set nocount off;
