-- Find the queues that get a copy of an event known by these topics, which come as lines; each once.
-- Keeps no lock; on SQL Server it waits for a transaction that is changing these subscriptions, unless the database reads
-- versions (READ_COMMITTED_SNAPSHOT). Returns one row a queue, with its canonical address.
declare @topics nvarchar(max) = N'$(topics)';

select distinct QueueAddress as queue_address
from [$(catalog)].[$(schema)].[$(table)]
where Topic in (select value from string_split(@topics, nchar(10)))
order by queue_address;
