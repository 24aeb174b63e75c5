-- Say when a message sent now would expire: the database's UTC time, as the queue's column holds it.
-- Locks nothing; returns one row with one time, null for a message that never expires.
declare @days int = cast(nullif(N'$(expires_in_days)', N'') as int);
declare @ms int = cast(nullif(N'$(expires_in_ms)', N'') as int);
declare @expires datetime = case
    when @days is not null then dateadd(ms, @ms, dateadd(day, @days, sysutcdatetime()))
end;

select @expires as expires;
