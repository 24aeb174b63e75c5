-- Count, up to `most`, the messages a receiver could take now: those waiting that are not in flight.
-- On SQL Server `readpast` passes over the rows in hand and `readcommittedlock` has it look at locks even where the database
-- reads versions; its shared locks last for a row each and are compatible with a receiver's update lock, so it makes none
-- pass over a message and never waits. On Babelfish it also counts the rows in hand. Returns one row with one integer.
declare @lower_bound bigint = N'$(lower_bound)';
declare @most int = N'$(most)';

select count(*) as available
from (
    select top(@most) RowVersion
    from [$(catalog)].[$(schema)].[$(queue)] with (readpast, readcommittedlock)
    where RowVersion >= @lower_bound
    order by RowVersion
) as waiting;
