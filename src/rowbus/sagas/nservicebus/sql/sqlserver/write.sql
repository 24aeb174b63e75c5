-- Write a saga's state into its row of .NET's table, unless another has written it since it was found, and
-- which program that was.
-- Its row is locked by this transaction already; waits for nothing. Returns one row: how many were written, 1 or 0. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @id uniqueidentifier = N'$(id)';
declare @concurrency int = N'$(concurrency)';
declare @state nvarchar(max) = N'$(state)';

update [$(catalog)].[$(schema)].[$(shared_saga)]
set
    Data = @state,
    PersistenceVersion = N'rowbus',
    SagaTypeVersion = N'0.0',
    Concurrency = Concurrency + 1
where Id = @id and Concurrency = @concurrency;
select @@rowcount as written;

if @nocount = 0 set nocount off;
