-- Note a schedule, or another text for one, with the tick that it waits for now; what is noted with this text stays.
-- On SQL Server `updlock, holdlock` keep the row, and the place of one that is missing, from others that note the same:
-- waits for those, and for a transaction that sends its tick. Returns one row: 1 if that was news, else 0. Leaves NOCOUNT
-- as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @name nvarchar(200) = N'$(name)';
declare @schedule nvarchar(400) = N'$(schedule)';
declare @next_due datetime2 = cast(N'$(next_due)' as datetime2);
declare @news int;

update [$(catalog)].[$(schema)].[$(recurring)] with (updlock, holdlock)
set
    Schedule = @schedule,
    NextDue = @next_due
where
    Name = @name
    and Schedule collate Latin1_General_BIN2 <> @schedule;
set @news = @@rowcount;

insert into [$(catalog)].[$(schema)].[$(recurring)] (Name, Schedule, NextDue)
select
    @name as Name,
    @schedule as Schedule,
    @next_due as NextDue
where not exists (
    select 1
    from [$(catalog)].[$(schema)].[$(recurring)] as known with (updlock, holdlock)
    where known.Name = @name
);
set @news = @news + @@rowcount;
select @news as news;

if @nocount = 0 set nocount off;
