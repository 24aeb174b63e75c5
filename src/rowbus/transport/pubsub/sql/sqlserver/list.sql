-- List who subscribes to what.
-- Keeps no lock; on SQL Server it waits for transactions that are changing subscriptions. Returns one row a subscription:
-- endpoint, topic, address, by endpoint and topic.
select
    Endpoint as endpoint,
    Topic as topic,
    QueueAddress as queue_address
from [$(catalog)].[$(schema)].[$(table)]
order by endpoint, topic;
