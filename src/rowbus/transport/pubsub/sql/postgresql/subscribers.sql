-- Find the queues that get a copy of an event known by these topics, each once.
-- Locks nothing; returns one row a queue, with its canonical address.
select distinct queueaddress::text as queueaddress
from :"schema".:"table"
where topic = any(:'topics'::text[])
order by queueaddress
