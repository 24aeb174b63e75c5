-- Delete every message of the queue.
-- Locks each row it deletes and waits for receivers that have messages in hand: no `readpast`, so that nothing it was to
-- delete comes back. Returns one row with one integer: how many it deleted.
declare @nocount int = @@options & 512;
set nocount on;

delete from [$(catalog)].[$(schema)].[$(queue)];
select @@rowcount as deleted;

if @nocount = 0 set nocount off;
