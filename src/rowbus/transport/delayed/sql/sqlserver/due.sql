-- Say when a message stored now would be due: at an instant (UTC), or days and milliseconds from now by the database's
-- clock; rounded up to what the column can hold, as store.sql does.
-- Locks nothing; returns one row with one time.
declare @at datetime2 = cast(nullif(N'$(at)', N'') as datetime2);
declare @days int = cast(nullif(N'$(due_in_days)', N'') as int);
declare @ms int = cast(nullif(N'$(due_in_ms)', N'') as int);
declare @exact datetime2 = case
    when @at is null then dateadd(ms, @ms, dateadd(day, @days, sysutcdatetime()))
    else @at
end;
declare @due datetime = cast(@exact as datetime);

select
    case
        when cast(@due as datetime2) = @exact then @due
        else dateadd(ms, 2, @exact)
    end as due;
