-- Keep one part of a value, in the transaction that sends its message, for so long by the database's clock. The time
-- comes in days and milliseconds, because `dateadd` counts in int.
-- Locks the row it inserts; no other transaction has its id, so it never waits. Returns nothing. Leaves NOCOUNT as it
-- found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @id uniqueidentifier = N'$(value_id)';
declare @part int = N'$(part)';
declare @parts int = N'$(parts)';
declare @days int = N'$(keep_for_days)';
declare @ms int = N'$(keep_for_ms)';
declare @content varbinary(max) = convert(varbinary(max), N'$(content)');
declare @keep_until datetime = dateadd(ms, @ms, dateadd(day, @days, sysutcdatetime()));

insert into [$(catalog)].[$(schema)].[$(claimed)] (Id, Part, Parts, KeepUntil, Content)
values (@id, @part, @parts, @keep_until, @content);

if @nocount = 0 set nocount off;
