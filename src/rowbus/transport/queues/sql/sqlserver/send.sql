-- Put one message in the queue; the row's id is never the message's. The time to be received comes in days and
-- milliseconds, because `dateadd` counts in int and 2^31 ms are not a month.
-- Locks only the row it inserts, so it never waits: it reads no other row, and no index of the table is unique.
-- Returns nothing. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @headers nvarchar(max) = N'$(headers)';
declare @body varbinary(max) = convert(varbinary(max), N'$(body)');
declare @days int = cast(nullif(N'$(expires_in_days)', N'') as int);
declare @ms int = cast(nullif(N'$(expires_in_ms)', N'') as int);
declare @expires datetime = case
    when @days is not null then dateadd(ms, @ms, dateadd(day, @days, sysutcdatetime()))
end;

insert into [$(catalog)].[$(schema)].[$(queue)] (Id, Recoverable, Expires, Headers, Body)
values (newid(), 1, @expires, @headers, @body);

if @nocount = 0 set nocount off;
