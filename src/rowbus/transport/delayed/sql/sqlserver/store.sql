-- Store one message until it is due: at an instant (UTC), or days and milliseconds from now by the database's clock. The
-- column keeps 1/300 s, so the time is rounded up to what it can hold: a message is never due early.
-- Locks only the row it inserts, so it never waits: it reads no other row, and no index of the table is unique.
-- Returns nothing. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @headers nvarchar(max) = N'$(headers)';
declare @body varbinary(max) = convert(varbinary(max), N'$(body)');
declare @at datetime2 = cast(nullif(N'$(at)', N'') as datetime2);
declare @days int = cast(nullif(N'$(due_in_days)', N'') as int);
declare @ms int = cast(nullif(N'$(due_in_ms)', N'') as int);
declare @exact datetime2 = case
    when @at is null then dateadd(ms, @ms, dateadd(day, @days, sysutcdatetime()))
    else @at
end;
declare @due datetime = cast(@exact as datetime);
declare @rounded_up datetime = case
    when cast(@due as datetime2) = @exact then @due
    else dateadd(ms, 2, @exact)
end;

insert into [$(catalog)].[$(schema)].[$(delayed)] (Headers, Body, Due)
values (@headers, @body, @rounded_up);

if @nocount = 0 set nocount off;
