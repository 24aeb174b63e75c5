-- Delete a saga that is complete from .NET's table, unless another has written it since it was found.
-- Its row is locked by this transaction already; waits for nothing. Returns one row: how many were deleted, 1 or 0. Leaves
-- NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @id uniqueidentifier = N'$(id)';
declare @concurrency int = N'$(concurrency)';

delete from [$(catalog)].[$(schema)].[$(shared_saga)]
where Id = @id and Concurrency = @concurrency;
select @@rowcount as deleted;

if @nocount = 0 set nocount off;
