-- Delete what one saga did: it has completed, and completed ones are not kept.
-- Locks the rows it deletes, which belong to the saga that this transaction has locked. Returns nothing. Leaves NOCOUNT as
-- it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @id uniqueidentifier = N'$(id)';

delete from [$(catalog)].[$(schema)].[$(history)]
where SagaId = @id;

if @nocount = 0 set nocount off;
