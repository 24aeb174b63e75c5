-- Write a saga's state into its row, unless another has written it since it was found; the timeouts that it waits for stay
-- as they are when the text for them is null.
-- Its row is locked by this transaction already; waits for nothing. Returns one row: how many were written, 1 or 0. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @id uniqueidentifier = N'$(id)';
declare @concurrency int = N'$(concurrency)';
declare @version int = N'$(version)';
declare @state nvarchar(max) = N'$(state)';
declare @timeouts nvarchar(max) = nullif(N'$(timeouts)', N'');

update [$(catalog)].[$(schema)].[$(saga)]
set
    State = @state,
    Version = @version,
    Timeouts = coalesce(@timeouts, Timeouts),
    Concurrency = Concurrency + 1,
    Changed = sysutcdatetime()
where Id = @id and Concurrency = @concurrency;
select @@rowcount as written;

if @nocount = 0 set nocount off;
