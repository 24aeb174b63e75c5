-- Ask how large values are, before any of them is read. Sizes are known without reading the contents.
-- Waits for a transaction that sweeps one of them, if the database reads under locks. Keeps no lock. Returns a row for each
-- value that is there: its id, and the bytes of its parts together. Leaves NOCOUNT as it found it.
declare @nocount int = @@options & 512;
set nocount on;
declare @value_ids nvarchar(max) = N'$(value_ids)';

select
    lower(cast(kept.Id as char(36))) as id,
    sum(cast(datalength(kept.Content) as bigint)) as size
from [$(catalog)].[$(schema)].[$(claimed)] as kept
where kept.Id in (select cast(value as uniqueidentifier) from string_split(@value_ids, N','))
group by kept.Id;

if @nocount = 0 set nocount off;
