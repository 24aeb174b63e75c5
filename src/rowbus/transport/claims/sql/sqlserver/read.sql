-- Read one part of a value, and of how many parts it is.
-- Waits for a transaction that sweeps the row, if the database reads under locks. Keeps no lock. Returns one row, or none
-- when the value is not there. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @id uniqueidentifier = N'$(value_id)';
declare @part int = N'$(part)';

select
    kept.Parts,
    kept.Content
from [$(catalog)].[$(schema)].[$(claimed)] as kept
where
    kept.Id = @id
    and kept.Part = @part;

if @nocount = 0 set nocount off;
