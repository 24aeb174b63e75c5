-- List who subscribes to what.
-- Locks nothing; returns one row a subscription, by endpoint and topic.
select
    endpoint::text,
    topic::text,
    queueaddress::text
from :"schema".:"table"
order by endpoint, topic
