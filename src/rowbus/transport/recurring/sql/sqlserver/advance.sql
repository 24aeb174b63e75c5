-- Have a schedule wait for its next tick, if it still waits for the one expected: in the transaction that sends that one.
-- On SQL Server it locks the row, and passes over it when another transaction has it locked (`readpast`), so it never
-- waits. Returns one row: 1, or 0 when another transaction sends, or has sent, this tick. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @name nvarchar(200) = N'$(name)';
declare @schedule nvarchar(400) = N'$(schedule)';
declare @expected datetime2 = cast(N'$(expected)' as datetime2);
declare @following datetime2 = cast(N'$(following)' as datetime2);
declare @sent datetime2 = cast(nullif(N'$(sent)', N'') as datetime2);

update [$(catalog)].[$(schema)].[$(recurring)] with (readpast, rowlock)
set
    NextDue = @following,
    LastSent = coalesce(@sent, LastSent)
where
    Name = @name
    and Schedule collate Latin1_General_BIN2 = @schedule
    and NextDue = @expected;
select @@rowcount as advanced;

if @nocount = 0 set nocount off;
